/** Nothing depends on the words of an error: what svc does is the same when every error says nonsense. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'

const root = join(import.meta.dir, '..')
/** `agent` is not among them: what its errors say is what another program said, which its user reads. */
const folders = [
  ...['access', 'accounts', 'backup', 'cli', 'doctor', 'gateway', 'inspect', 'library', 'mcp', 'media'],
  ...['migrate', 'operations', 'push', 'receive', 'send', 'server', 'storage'],
]

for (const folder of folders)
  test(`test/${folder} passes while every message and hint is nonsense`, async () => {
    // The long ones drive other people's programs, which read what they like.
    const files = [...new Bun.Glob(`test/${folder}/**/*.test.ts`).scanSync(root)].filter(
      path => !path.includes('.long.'),
    )
    const child = Bun.spawn(
      [process.execPath, 'test', '--parallel=4', '--only-failures', '--timeout=120000', ...files],
      {
        cwd: root,
        // By the environment: the processes that the tests start speak nonsense too.
        env: { ...process.env, BUN_OPTIONS: `--preload=${join(root, 'test/support/nonsense.ts')}` },
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    )
    const [said, status] = await Promise.all([new Response(child.stderr).text(), child.exited])
    const failed = said.match(/^\(fail\).*$/gm) ?? []
    if (failed.length > 0) process.stderr.write(said)
    expect([status, failed]).toEqual([0, []])
  }, 1_800_000)
