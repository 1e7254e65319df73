/** Kills programs at their system calls. */
import { ended } from './ended.ts'
import { svcProgram } from './svc-program.ts'

/** Whether strace may trace here; said once on stderr when not. */
export const canTrace: boolean = (() => {
  const ok =
    process.platform === 'linux' &&
    Bun.which('strace') !== null &&
    Bun.spawnSync(['strace', '-o', '/dev/null', 'true'], { stderr: 'ignore' }).exitCode === 0
  if (!ok) console.error('tests that kill at each system call are skipped: no strace that may trace')
  return ok
})()

/**
 * What changes the disk. Each group is walked on its own: strace counts the calls of each thread, and those of a
 * group come from one thread, or nearly so.
 */
const groups = [
  'pwrite64',
  'rename,renameat,renameat2,link,linkat',
  'fsync,fdatasync,ftruncate,unlink,unlinkat,mkdir,rmdir',
]
/** More than a run makes. */
const atMost = 1000

/**
 * Lets svc die at its first, second, third … system call that changes the disk, of each group until it survives. So
 * it dies in every part of its work, however fast the machine is.
 *
 * @param dense the first ones that are tried one by one; later ones are ever farther apart
 * @param round runs svc once, with `run`, and checks what is left. `at` names the call
 * @returns how often svc died
 */
export async function killAtChanges(
  { home, dense }: { home: string; dense: number },
  round: (run: (words: readonly string[]) => Promise<boolean>, at: string) => Promise<unknown>,
): Promise<number> {
  const env = { PATH: process.env.PATH ?? '', HOME: home, UV_THREADPOOL_SIZE: '1' }
  let killed = 0
  for (const calls of groups)
    for (let nth = 1; ; nth += 1 + Math.floor(nth / dense)) {
      const at = `${calls} ${nth}`
      if (nth > atMost) throw new Error(`still killed at ${at}`)
      const inject = `inject=${calls}:signal=SIGKILL:when=${nth}`
      const tracer = ['strace', '-f', '-o', '/dev/null', '-e', `trace=${calls}`, '-e', inject]
      let isDone = false
      await round(async words => {
        const { status, stderr } = await ended([...tracer, ...svcProgram, ...words], { cwd: home, env })
        if (status !== 0 && status !== 128 + 9) throw new Error(`${at}: ended with ${status}: ${stderr}`)
        isDone = status === 0
        return isDone
      }, at)
      if (isDone) break
      killed += 1
    }
  return killed
}
