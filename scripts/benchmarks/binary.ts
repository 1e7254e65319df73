import { join } from 'node:path'
import { createTemporaryFolder, memoryOf, root } from './process.ts'
import { type Benchmark, formatSpread, median, toMib } from './report.ts'

async function build(entry: string, outfile: string): Promise<void> {
  const command = [process.execPath, 'scripts/build.ts', `--entry=${entry}`, `--outfile=${outfile}`]
  const built = Bun.spawn(command, { cwd: root, stdout: 'ignore', stderr: 'inherit' })
  if ((await built.exited) !== 0) throw new Error(`${entry} does not compile`)
}

/**
 * Starts svc and sends a request once it prints its address.
 *
 * @returns ms to the first response; memory after `idleMs`
 */
async function start(command: string[], cwd: string, idleMs: number): Promise<{ ms: number; rss: number }> {
  const from = performance.now()
  const child = Bun.spawn(command, {
    cwd,
    env: { HOME: cwd, PATH: '' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  try {
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
    let output = ''
    let url: string | undefined
    while (url === undefined) {
      const { done, value } = await reader.read()
      if (done) throw new Error(`${command[0]} ended: ${output}`)
      output += value
      url = /^listening on (\S+)$/m.exec(output)?.[1]
    }
    const response = await fetch(`${url}/healthz`)
    await response.text()
    const ms = performance.now() - from
    if (idleMs > 0) await Bun.sleep(idleMs)
    return { ms, rss: memoryOf(child.pid).rss }
  } finally {
    child.kill('SIGKILL')
    await child.exited
  }
}

export const binary: Benchmark = {
  name: 'binary',
  compares:
    'the time from the start of `svc openapi` on an existing data directory to its answer to GET /healthz, compared with a hello-world Elysia app compiled with the same flags; and the resident memory 5 s later.',
  async run({ quick }) {
    using folder = createTemporaryFolder()
    const [svc, hello] = [join(folder.path, 'svc'), join(folder.path, 'hello')]
    await build(join(root, 'src/main.ts'), svc)
    await build(join(import.meta.dirname, 'bare-app.ts'), hello)
    const data = join(folder.path, 'data')
    const ours = [
      svc,
      'openapi',
      '--no-banner',
      '--port',
      '0',
      '-d',
      data,
      '--upstream-url',
      'http://127.0.0.1:9',
    ]
    const first = await start(ours, folder.path, 0)
    const times: Record<'ours' | 'hello', number[]> = { ours: [], hello: [] }
    for (let round = 0; round < (quick ? 5 : 20); round++) {
      times.hello.push((await start([hello], folder.path, 0)).ms)
      times.ours.push((await start(ours, folder.path, 0)).ms)
    }
    const idleMs = quick ? 1000 : 5000
    const sizes = {
      ours: await start(ours, folder.path, idleMs),
      hello: await start([hello], folder.path, idleMs),
    }
    const ratio = median(times.ours) / median(times.hello)
    const mb = (bytes: number) => bytes / 1e6
    return [
      {
        name: 'binary',
        what: 'start to first answer',
        ours: `${median(times.ours).toFixed(1)} ms`,
        baseline: `${median(times.hello).toFixed(1)} ms`,
        result: `${ratio.toFixed(2)} ×`,
        goal: '≤ 45 ms',
        met: median(times.ours) <= 45,
        spread: `${formatSpread(times.ours)}; on a new directory ${first.ms.toFixed(0)} ms`,
      },
      {
        name: 'binary',
        what: 'idle memory',
        ours: `${mb(sizes.ours.rss).toFixed(1)} MB`,
        baseline: `${mb(sizes.hello.rss).toFixed(1)} MB`,
        result: `${mb(sizes.ours.rss).toFixed(1)} MB`,
        goal: '≤ 60 MB',
        met: mb(sizes.ours.rss) <= 60,
        spread: `${toMib(sizes.ours.rss).toFixed(1)} MiB`,
      },
    ]
  },
}
