/** Three programs share a consumer, while they and the service are killed: nothing is lost, and nothing comes twice unasked. */
import { expect, test } from 'bun:test'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { sandboxAlone } from '../../support/command.ts'
import { freePort } from '../../support/port.ts'
import { root } from '../../support/repository.ts'
import { logIn, type Service, startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

const python = Bun.which('python3')
const people = 5
const each = 60

interface Line {
  id: number
  user: string
  again: boolean
}

test.skipIf(python === null).each([
  ['the service is killed 20 times', 20, 0],
  ['programs are killed 40 times', 0, 40],
  ['both are killed', 10, 20],
])(
  '%s',
  async (_title, serviceKills, programKills) => {
    const dir = await mkdtemp(join(tmpdir(), 'svc-python-'))
    const port = String(freePort())
    const files = [0, 1, 2].map(nth => join(dir, `../${nth}-${port}.lines`))
    const start = () => startService({ dir, args: ['--port', port, '--pace', 'off'] })
    const run = (file: string) =>
      Bun.spawn(
        [
          python!,
          join(import.meta.dir, 'loop.py'),
          join(root, 'src/server'),
          `http://127.0.0.1:${port}`,
          'shared',
          file,
        ],
        { env: { PATH: process.env.PATH ?? '' }, stdin: 'ignore', stdout: 'inherit', stderr: 'inherit' },
      )
    const linesOf = async (file: string) =>
      (await readFile(file, 'utf8').catch(() => ''))
        .split('\n')
        .slice(0, -1)
        .map((line): Line => JSON.parse(line))
    const all = async () => (await Promise.all(files.map(linesOf))).flat()
    try {
      await using phone = await sandboxAlone(dir, dir)
      let service: Service = await start()
      await logIn(service)
      const lease = `http://127.0.0.1:${port}/consumers/shared/leases`
      await fetch(lease, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"timeout":0}',
      })
      const users = ['']
      while (users.length < people) users.push(((await phone.phone('users', {})) as { id: string }).id)
      const programs = files.map(run)
      let sent = 0
      const sending = (async () => {
        for (; sent < people * each; sent++) {
          const from = users[sent % people]
          await phone.phone('say', { text: `${sent}`, ...(from && { from }) })
          await Bun.sleep(20)
        }
      })()
      for (let kill = 0; kill < Math.max(serviceKills, programKills); kill++) {
        await Bun.sleep(100 + Math.random() * 400)
        if (kill < programKills) {
          const nth = kill % programs.length
          programs[nth]!.kill('SIGKILL')
          await programs[nth]!.exited
          programs[nth] = run(files[nth]!)
        }
        if (kill < serviceKills) {
          await service.kill('SIGKILL')
          service = await start()
        }
      }
      await sending
      // What a killed program held comes after its lease of 45 seconds.
      await until(
        'all came',
        240_000,
        async () => new Set((await all()).map(({ id }) => id)).size >= people * each,
      )
      for (const program of programs) program.kill('SIGTERM')
      await Promise.all(programs.map(({ exited }) => exited))
      await service[Symbol.asyncDispose]()
      const lines = await all()
      const firsts = lines.filter(({ again }) => !again)
      expect(new Set(firsts.map(({ id }) => id)).size).toBe(firsts.length)
      expect(lines.length - people * each).toBeLessThanOrEqual(programKills)
      if (programKills === 0) for (const file of files) expect(inOrder(await linesOf(file))).toBe(true)
    } finally {
      for (const path of [dir, ...files]) await rm(path, { recursive: true, force: true })
    }
  },
  600_000,
)

/** Whether the messages of each person came in order. */
function inOrder(lines: readonly Line[]): boolean {
  const last = new Map<string, number>()
  return lines.every(({ id, user }) => {
    const isLater = id > (last.get(user) ?? 0)
    last.set(user, id)
    return isLater
  })
}
