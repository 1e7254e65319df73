/** Three programs share a consumer, while they and the service are killed: nothing is lost, and nothing comes twice unasked. */
import { expect, test } from 'bun:test'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { startCluster } from '../support/cluster.ts'
import { sandboxAlone } from '../support/command.ts'
import { freePort } from '../support/port.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { root } from '../support/repository.ts'
import { logIn, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const nginx = Bun.which('nginx', { PATH: `${process.env.PATH}:/usr/sbin` })
const people = 5
const each = 60

/** Where the programs call svc. */
interface Place extends AsyncDisposable {
  readonly url: string
  phone(path: string, body: object): Promise<unknown>
  /** Kills what serves the url, or a part of it, and starts it again. */
  kill(): Promise<void>
}

async function oneDirectory(folder: string): Promise<Place> {
  const port = String(freePort())
  const dir = join(folder, 'data')
  await mkdir(dir, { mode: 0o700 })
  const sandbox = await sandboxAlone(dir, folder)
  const start = () => startService({ dir, args: ['--port', port, '--pace', 'off'] })
  let service = await start()
  await logIn(service)
  return {
    url: service.url,
    phone: sandbox.phone,
    async kill() {
      await service.kill('SIGKILL')
      service = await start()
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await sandbox[Symbol.asyncDispose]()
    },
  }
}

/** The proxy sends each call to another node. */
async function twoNodes(folder: string): Promise<Place> {
  await using stack = new AsyncDisposableStack()
  const cluster = stack.use(await startCluster({ nodes: 0 }))
  const ports = [String(freePort()), String(freePort())] as const
  const start = (port: string) => cluster.addNode({ args: ['--port', port, '--pace', 'off'] })
  const nodes = [await start(ports[0]), await start(ports[1])]
  await cluster.logIn('default')
  const port = freePort()
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    one => `${one}_temp_path ${folder}/${one};`,
  )
  const setup = `daemon off; pid ${folder}/pid; error_log stderr crit; events {}
    http {
      access_log off; ${temporary.join(' ')}
      upstream nodes { ${ports.map(one => `server 127.0.0.1:${one} max_fails=0;`).join(' ')} }
      server {
        listen 127.0.0.1:${port};
        location / { proxy_pass http://nodes; proxy_set_header Host $http_host; proxy_read_timeout 120s; }
      }
    }`
  await writeFile(join(folder, 'nginx.conf'), setup)
  const proxy = Bun.spawn([nginx!, '-p', folder, '-c', join(folder, 'nginx.conf')], { stdin: 'ignore' })
  stack.defer(async () => {
    proxy.kill('SIGTERM')
    await proxy.exited
  })
  const url = `http://127.0.0.1:${port}`
  await until('the proxy', 30_000, () =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  let turn = 0
  const own = stack.move()
  return {
    url,
    phone: (path, body) => cluster.phone(path, body),
    async kill() {
      const nth = turn++ % 2
      await nodes[nth]!.kill('SIGKILL')
      nodes[nth] = await start(ports[nth]!)
    },
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  }
}

interface Line {
  id: number
  user: string
  again: boolean
}

/** The programs: each writes what it gets into a file. */
const loops = {
  TypeScript: [process.execPath, join(import.meta.dir, 'loop.ts')],
  Python: ['python3', join(import.meta.dir, '../server/python/loop.py'), join(root, 'src/server')],
} as const
const languages = (Object.keys(loops) as (keyof typeof loops)[]).filter(
  language => Bun.which(loops[language][0]) !== null,
)

const hasNodes = nginx !== null && isPostgresThere()

const worlds = [
  ['the service is killed 20 times', oneDirectory, 20, 0],
  ['programs are killed 40 times', oneDirectory, 0, 40],
  ['both are killed', oneDirectory, 10, 20],
  ...(hasNodes
    ? ([
        ['two nodes behind nginx are killed 20 times in turn, and programs 20 times', twoNodes, 20, 20],
      ] as const)
    : []),
] as const

test.each(languages.flatMap(language => worlds.map(world => [language, ...world] as const)))(
  'programs in %s: %s',
  async (language, _title, open, serviceKills, programKills) => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-killed-'))
    const files = [0, 1, 2].map(nth => join(folder, `${nth}.lines`))
    const linesOf = async (file: string) =>
      (await readFile(file, 'utf8').catch(() => ''))
        .split('\n')
        .slice(0, -1)
        .map((line): Line => JSON.parse(line))
    const all = async () => (await Promise.all(files.map(linesOf))).flat()
    try {
      await using place = await open(folder)
      const run = (file: string) =>
        Bun.spawn([...loops[language], place.url, 'shared', file], {
          env: { PATH: process.env.PATH ?? '', PYTHONDONTWRITEBYTECODE: '1' },
          ...{ stdin: 'ignore', stdout: 'inherit', stderr: 'inherit' },
        })
      const headers = { 'content-type': 'application/json' }
      await fetch(`${place.url}/consumers/shared/leases`, { method: 'POST', headers, body: '{"timeout":0}' })
      const users = ['']
      while (users.length < people) users.push(((await place.phone('users', {})) as { id: string }).id)
      const programs = files.map(run)
      const sending = (async () => {
        for (let sent = 0; sent < people * each; sent++) {
          const from = users[sent % people]
          await place.phone('say', { text: `${sent}`, ...(from && { from }) })
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
        if (kill < serviceKills) await place.kill()
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
      const lines = await all()
      const firsts = lines.filter(({ again }) => !again)
      expect(new Set(firsts.map(({ id }) => id)).size).toBe(firsts.length)
      expect(lines.length - people * each).toBeLessThanOrEqual(programKills)
      if (programKills === 0) for (const file of files) expect(inOrder(await linesOf(file))).toBe(true)
    } finally {
      await rm(folder, { recursive: true, force: true })
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
