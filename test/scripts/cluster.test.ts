/** `./scripts/cluster`, as a person tries it: a node dies, the rest goes on, and nothing stays. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { failure } from '../support/failure.ts'
import { overhear } from '../support/overheard.ts'
import { freePort } from '../support/port.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const script = join(import.meta.dir, '../../scripts/cluster.ts')
const run = (...args: string[]) =>
  Bun.spawn([process.execPath, script, ...args], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })

test.skipIf(!isPostgresThere())(
  'the proxy leaves out a node that dies, and everything ends',
  async () => {
    const child = run('--nodes', '2', '--port', '0')
    const output = overhear(child)
    const said = (pattern: RegExp) => pattern.exec(output.stdout)?.[1]
    await until(
      'the cluster is ready',
      60_000,
      () => said(/(Ctrl-C)/) !== undefined || child.exitCode !== null,
      () => output.stderr,
    )
    const url = said(/^svc +(\S+)/m)!
    process.kill(Number(said(/kill -9 (\d+)/)), 'SIGKILL')
    await until('the end of the node is said', 20_000, () => said(/^node 1 .*(has ended)/m))
    for (let call = 0; call < 4; call++) expect((await fetch(`${url}/healthz`)).status).toBe(200)
    child.kill('SIGTERM')
    expect(await output.exited).toBe(0)
    // Nothing runs any more, the database included.
    for (const [, pid] of output.stdout.matchAll(/process (\d+)$/gm))
      expect(() => process.kill(Number(pid), 0)).toThrow()
    const port = Number(/^database .*:(\d+)\//m.exec(output.stdout)?.[1])
    expect(await failure(Bun.connect({ hostname: '127.0.0.1', port, socket: { data() {} } }))).toMatchObject({
      code: 'ECONNREFUSED',
    })
  },
  120_000,
)

test.skipIf(!isPostgresThere())('what is wrong is said before anything starts', async () => {
  const wrong = run('--nodes', 'many')
  expect(await new Response(wrong.stderr).text()).toBe('--nodes: expected 1 to 20\n')
  expect(await wrong.exited).toBe(2)
  using taken = Bun.listen({ hostname: '127.0.0.1', port: freePort(), socket: { data() {} } })
  const late = run('--port', String(taken.port))
  expect(await new Response(late.stderr).text()).toContain(`The port ${taken.port} is not free`)
  expect(await late.exited).toBe(1)
})
