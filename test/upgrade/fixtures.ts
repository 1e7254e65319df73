/** What earlier releases left: made in four forms, packed, and opened for one test each. */
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { svc } from '../support/command.ts'
import { ended } from '../support/ended.ts'
import { freePort } from '../support/port.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { postgresProgram } from '../support/postgres-program.ts'
import { callbackOf, clockBehind, type Home, type HomeOptions, openHere } from './home.ts'
import { type Left, live } from './life.ts'

/** A data directory, one whose secrets are encrypted, a dump of a database, and a backup. */
export const kinds = ['directory', 'encrypted', 'database', 'backup'] as const
export type Kind = (typeof kinds)[number]

const folder = join(import.meta.dirname, 'fixtures')
const ending = '.tar.gz'
const env = { PATH: process.env.PATH ?? '' }

/** Version and kind of all, the oldest first. */
export const fixtures: readonly (readonly [version: string, kind: Kind])[] = (await readdir(folder))
  .flatMap(name => (name.endsWith(ending) ? [name.slice(0, -ending.length)] : []))
  .sort(new Intl.Collator('en', { numeric: true }).compare)
  .map(name => [name.slice(0, name.lastIndexOf('-')), name.slice(name.lastIndexOf('-') + 1) as Kind])

export type Open = (dir: string, options: HomeOptions) => Promise<Home>
const newSecret = () => crypto.randomUUID() + crypto.randomUUID()

const save = (place: string, left: Left) => writeFile(join(place, 'left.json'), JSON.stringify(left, null, 1))

/** Lets svc live in a data directory in a place, and leaves it in three forms. @param check looks at each store */
export async function makeFiles(
  place: string,
  open: Open,
  check?: (home: Home) => Promise<void>,
): Promise<void> {
  const [plain, encrypted, backup] = ['directory', 'encrypted', 'backup'].map(kind => join(place, kind))
  for (const one of [plain, encrypted, backup]) await mkdir(one!, { recursive: true })
  await mkdir(join(plain!, 'data'), { mode: 0o700 })
  using callback = callbackOf()
  await using home = await open(join(plain!, 'data'), { callback })
  const left = await live(home)
  await home.end()
  await home.svc('backup', join(backup!, 'svc.tar'))
  await check?.(home)
  await cp(home.dir, join(encrypted!, 'data'), { recursive: true, preserveTimestamps: true })
  const secret = join(encrypted!, 'secret.key')
  await writeFile(secret, newSecret(), { mode: 0o600 })
  await home.svc('secrets', 'on', '--secret-key-file', secret, '-d', join(encrypted!, 'data'))
  for (const one of [plain, backup]) await save(one!, left)
  // Links that sign in once end with a new secret key.
  const { link: _, ...panel } = left.stories.panel
  await save(encrypted!, { ...left, stories: { ...left.stories, panel } })
}

/** The same with a store on PostgreSQL. */
export async function makeDump(
  place: string,
  open: Open,
  check: (query: (sql: string) => Promise<string>) => Promise<void>,
): Promise<void> {
  const data = join(place, 'database/data')
  await mkdir(data, { recursive: true, mode: 0o700 })
  const server = await sharedPostgres()
  const name = `fixture_${crypto.randomUUID().slice(0, 8)}`
  await server.createDatabase(name)
  const secret = newSecret()
  await writeFile(join(place, 'database/secret.key'), secret)
  using callback = callbackOf()
  const variables = { SVC_STORE_URL: server.url(name), SVC_SECRET_KEY: secret }
  await using home = await open(data, { callback, env: variables })
  const left = await live(home)
  await check(sql => server.psql(sql, name))
  const dump = [postgresProgram('pg_dump'), '--no-owner', '--no-privileges', server.superUrl(name)]
  const { status, stderr, stdout } = await ended(dump, { cwd: '/', env })
  if (status !== 0) throw new Error(stderr)
  await writeFile(join(place, 'database/database.sql'), stdout)
  await home.end()
  await server.dropDatabase(name)
  await save(join(place, 'database'), { ...left, wechat: home.phoneUrl })
}

/** Packs a place as a fixture. @returns its path */
export async function pack(place: string, version: string, kind: Kind): Promise<string> {
  const path = join(folder, `${version}-${kind}${ending}`)
  // Programs leave more in their home, such as caches.
  const parts = ['left.json', 'data', 'wechat', 'secret.key', 'database.sql', 'svc.tar'].filter(name =>
    existsSync(join(place, name)),
  )
  const options = ['--owner=0', '--group=0', '--use-compress-program=gzip -9', '-cf', path, ...parts]
  const { status, stderr } = await ended(['tar', ...options], { cwd: place, env })
  if (status !== 0) throw new Error(stderr)
  return path
}

/** What was left, to be opened in this process, a minute later by its own time. */
export interface Unpacked extends AsyncDisposable {
  readonly place: string
  readonly left: Left
  open(more?: { withoutKey?: boolean }): Promise<Home>
}

/** Unpacks a fixture. @param from a place that was made and not packed */
export async function unpacked(version: string, kind: Kind, from?: string): Promise<Unpacked> {
  await using stack = new AsyncDisposableStack()
  const place = await mkdtemp(join(tmpdir(), 'svc-upgrade-'))
  stack.defer(() => rm(place, { recursive: true, force: true }))
  if (from) await cp(from, place, { recursive: true, preserveTimestamps: true })
  else {
    const packed = join(folder, `${version}-${kind}${ending}`)
    const { status, stderr } = await ended(['tar', '-xzf', packed], { cwd: place, env })
    if (status !== 0) throw new Error(`${version}: ${stderr}`)
  }
  const left: Left = JSON.parse(await readFile(join(place, 'left.json'), 'utf8'))
  const clock = clockBehind(Date.now() - left.at - 60_000)
  const own = stack.move()
  let callback: Home['callback'] | undefined
  const secretOf = () => readFile(join(place, 'secret.key'), 'utf8')
  return {
    place,
    left,
    async open({ withoutKey = false } = {}) {
      const variables: Record<string, string> = {}
      let wechat: string | undefined
      const dir = join(place, 'data')
      if (kind === 'encrypted' && !withoutKey) variables.SVC_SECRET_KEY = await secretOf()
      if (kind === 'database') {
        const server = await sharedPostgres()
        const name = `fixture_${crypto.randomUUID().slice(0, 8)}`
        await server.createDatabase(name)
        own.defer(() => server.dropDatabase(name))
        // The accounts know the address of their WeChat, whose port another program may have now.
        const address = `http://127.0.0.1:${freePort()}`
        const dump = (await readFile(join(place, 'database.sql'), 'utf8')).replaceAll(left.wechat!, address)
        wechat = address
        await server.psql(`SET ROLE svc;\n${dump}`, name)
        Object.assign(variables, { SVC_STORE_URL: server.url(name), SVC_SECRET_KEY: await secretOf() })
      }
      const restored = {
        home: place,
        clock,
        env: { ...variables, SVC_BASE_PATH: dir, ...(kind !== 'database' && { SVC_SANDBOX: '1' }) },
      }
      if (kind === 'backup') await run(['restore', join(place, 'svc.tar'), '--keep-keys'], restored)
      if (kind === 'database') await run(['store', 'adopt', '--go-on'], restored)
      callback ??= own.use(callbackOf(left.callback))
      const { token } = left
      return own.use(await openHere(dir, clock, { callback, token, wechat, env: variables }))
    },
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  }
}

async function run(args: string[], options: Parameters<typeof svc>[1]): Promise<void> {
  const { status, stdout, stderr } = await svc(args, options)
  if (status !== 0) throw new Error(`svc ${args.join(' ')} (${status}): ${stdout}${stderr}`)
}
