/** What only root may do: small disks, and files that cannot be replaced. */
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const run = (...command: string[]) => {
  const { exitCode, stderr } = Bun.spawnSync(command, { stderr: 'pipe', stdout: 'ignore' })
  return exitCode === 0 ? undefined : `${command.join(' ')}: ${stderr}`
}
const must = (...command: string[]) => {
  const trouble = run(...command)
  if (trouble) throw new Error(trouble)
}

/** Whether this user may mount; said once on stderr when not. */
export const canMount: boolean = (() => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0 || !Bun.which('mount'))
    return no('not root on Linux')
  const dir = mkdtempSync(join(tmpdir(), 'svc-mount-'))
  const trouble = run('mount', '-t', 'tmpfs', '-o', 'size=1m', 'svc-test', dir)
  if (!trouble) run('umount', dir)
  rmdirSync(dir)
  return trouble ? no(trouble) : true
})()

function no(why: string): false {
  console.error(`tests that mount are skipped: ${why.trim()}`)
  return false
}

/** A disk of its own. `unmount` may be called while files are open. */
export function smallDisk(size: string): { dir: string; unmount(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'svc-disk-'))
  must('mount', '-t', 'tmpfs', '-o', `size=${size},mode=700`, 'svc-test', dir)
  return {
    dir,
    unmount() {
      must('umount', '-l', dir)
      rmdirSync(dir)
    },
  }
}

/** Makes a file unreplaceable: rename over it fails with EBUSY. @returns undoes it */
export function bindOver(path: string): () => void {
  must('mount', '--bind', path, path)
  return () => must('umount', path)
}
