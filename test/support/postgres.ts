/**
 * A PostgreSQL server of the tests: on a folder and a port of its own, with standbys, and with the faults of
 * a server. It ends with the test process, however that ends.
 */
import {
  appendFileSync,
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { ended } from './ended.ts'
import { end, family } from './family.ts'
import { type FreezingProxy, freezingProxy } from './freezing-proxy.ts'
import { freePort } from './port.ts'
import {
  asServer,
  giveToServer,
  password,
  postgresProgram,
  programEnv,
  role,
  runAsServer,
  serverFolder,
  superuser,
  templateCluster,
} from './postgres-program.ts'
import { sharedPrograms } from './shared-programs.ts'
import { until } from './until.ts'

export { isPostgresThere } from './postgres-program.ts'

/** Longest wait for anything that a server does. */
const withinMs = 60_000

export interface PostgresOptions {
  /** More lines of its `postgresql.conf`, such as `{ statement_timeout: '5s' }`. */
  settings?: Readonly<Record<string, string | number>>
}

export interface StandbyOptions {
  /** True: a commit on the primary waits until this standby has written it durably. */
  synchronous: boolean
  /** The replication passes a proxy, which makes a round trip longer by this. 0: a proxy without a delay. */
  delayMs?: number
}

export interface Postgres extends AsyncDisposable {
  readonly port: number
  /** Its folder: `data` is the data directory, `log` what it logs. */
  readonly dir: string
  /** Process id of the postmaster; undefined while the server does not run. */
  readonly pid: number | undefined
  /** Returns the URL for the role `svc`, which owns the databases. */
  url(database: string): string
  /** Returns the URL for the superuser, who needs no password. */
  superUrl(database: string): string
  /** Returns everything logged so far. */
  log(): string
  createDatabase(name: string, template?: string): Promise<void>
  /** Drops a database and ends its connections. An unknown database is no error. */
  dropDatabase(name: string): Promise<void>
  /**
   * Runs statements as the superuser, each in its own transaction.
   *
   * @param database `postgres` by default
   * @returns one line per row, columns separated by `|`
   * @throws Error with the message of the first statement that fails
   */
  psql(sql: string, database?: string): Promise<string>
  /** Starts the server again on the same folder and port. Returns when it accepts connections. */
  start(): Promise<void>
  /**
   * Stops the server. `fast` ends all connections and writes everything; it waits for a standby that is
   * paused or frozen. `immediate` is an orderly crash.
   */
  stop(mode: 'fast' | 'immediate'): Promise<void>
  /** Kills all its processes at the same time, as a machine that fails. Returns when they are gone. */
  kill(): Promise<void>
  /** Suspends all its processes. Connections stay open, and the kernel accepts new ones. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Creates a running standby of this server. It streams when this returns. Dispose of it first. */
  createStandby(options: StandbyOptions): Promise<Standby>
}

export interface Standby extends Postgres {
  /** The proxy between this standby and its primary; undefined without `delayMs`. */
  readonly replication: FreezingProxy | undefined
  /** Makes it a primary. Returns when it accepts writes. */
  promote(): Promise<void>
}

/**
 * Ends the processes that work in the data directory $1/data, also if it was removed, then removes the folder
 * $1. SIGQUIT lets the postmaster tidy up; SIGKILL ends what does not react for seconds, and leaves a segment
 * of shared memory.
 */
const endServer = `
processes() { find /proc/[0-9]*/cwd -maxdepth 0 -lname "$folder/data*" 2>/dev/null; }
signal() {
  for cwd in $(processes); do
    cwd=\${cwd%/cwd}
    kill "$1" "\${cwd#/proc/}" 2>/dev/null
  done
}
folder=$1 tries=0
signal -QUIT
signal -CONT
while [ -n "$(processes)" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 200 ] || signal -KILL
done
segment=$(sed -n '7s/.* //p' "$folder/data/postmaster.pid" 2>/dev/null)
[ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
rm -rf "$folder" 2>/dev/null`

/** Its stdin ends when the test process ends, in whatever way. */
const watchdog = `cat >/dev/null${endServer}`

const folders = new Set<string>()

/** Lets a program leave nothing when it exits. `bun test` emits no `exit`: the watchdog comes a moment later. */
function endAll(): void {
  for (const dir of folders) {
    Bun.spawnSync(asServer(['sh', '-c', endServer, 'sh', dir]), { cwd: '/', env: programEnv })
    rmSync(dir, { recursive: true, force: true })
  }
}

/** Starts a server. `await using` or `forFile` ends it and removes its folder. */
export async function startPostgres(options: PostgresOptions = {}): Promise<Postgres> {
  const template = await templateCluster()
  return await open(async data => {
    await runAsServer(['cp', '-a', `${template}/.`, data], data)
    const lines = Object.entries(options.settings ?? {}).map(
      ([name, value]) => `${name} = '${String(value).replaceAll("'", "''")}'\n`,
    )
    appendFileSync(join(data, 'postgresql.conf'), lines.join(''))
  })
}

let shared: Promise<Postgres> | undefined

/**
 * Returns the server that the test files of this process share; the first call starts it, and it ends with
 * the process. Use databases of your own, and leave it running and without standbys.
 */
export async function sharedPostgres(): Promise<Omit<Postgres, typeof Symbol.asyncDispose>> {
  shared ??= startPostgres()
  try {
    const server = await shared
    sharedPrograms.add(server.dir)
    return server
  } catch (error) {
    shared = undefined
    throw error
  }
}

/** Starts a server on a folder of its own. @param fill puts a cluster into the empty data directory */
async function open(fill: (data: string) => Promise<void>): Promise<Postgres> {
  const dir = mkdtempSync(join(serverFolder(), 'server-'))
  const data = join(dir, 'data')
  giveToServer(dir)
  // In a session of its own, so that a signal to all processes of a terminal does not reach it.
  const guard = Bun.spawn(asServer(['setsid', 'sh', '-c', watchdog, 'sh', dir]), {
    cwd: '/',
    env: programEnv,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.unref()
  if (folders.size === 0) process.once('exit', endAll)
  folders.add(dir)
  const port = freePort()
  let child: Bun.Subprocess | undefined
  let isPaused = false
  let standbys = 0
  const synchronous = new Set<string>()

  const log = () => readFileSync(join(dir, 'log'), 'utf8')
  const pid = () => (child && child.exitCode === null && child.signalCode === null ? child.pid : undefined)

  /** The postmaster writes its state into this file, as `pg_ctl` reads it. */
  const isReady = () => {
    if (pid() === undefined) throw new Error(`PostgreSQL did not start:\n${log()}`)
    const [first, ...lines] = stateFile(data).split('\n')
    return first === String(child?.pid) && lines[6]?.trim() === 'ready'
  }

  const own: Postgres = {
    port,
    dir,
    get pid() {
      return pid()
    },
    url: database => `postgres://${role}:${password}@127.0.0.1:${port}/${database}`,
    superUrl: database => `postgres://${superuser}@127.0.0.1:${port}/${database}`,
    log,
    async createDatabase(name, template) {
      const from = template === undefined ? '' : ` TEMPLATE ${quoted(template)}`
      await own.psql(`CREATE DATABASE ${quoted(name)} OWNER ${role}${from}`)
    },
    async dropDatabase(name) {
      await own.psql(`DROP DATABASE IF EXISTS ${quoted(name)} WITH (FORCE)`)
    },
    async psql(sql, database = 'postgres') {
      const command = [postgresProgram('psql'), '--no-psqlrc', '--quiet', '--no-align', '--tuples-only']
      const { status, stdout, stderr } = await ended(
        [...command, '--set=ON_ERROR_STOP=1', `--dbname=${own.superUrl(database)}`],
        { cwd: '/', env: programEnv, stdin: sql },
      )
      if (status !== 0) throw new Error(`psql (${status}): ${stderr.trim()}\n${sql}`)
      return stdout.trimEnd()
    },
    async start() {
      if (pid() !== undefined) return
      const output = openSync(join(dir, 'log'), 'a')
      child = Bun.spawn(asServer([postgresProgram('postgres'), '-D', data, '-c', `port=${port}`]), {
        cwd: data,
        env: programEnv,
        stdio: ['ignore', output, output],
      })
      child.unref()
      closeSync(output)
      await until('PostgreSQL accepts connections', withinMs, isReady, log)
    },
    async stop(mode) {
      if (isPaused) await own.resume()
      const running = pid()
      if (running === undefined) return
      end(running, mode === 'fast' ? 'SIGINT' : 'SIGQUIT')
      await child?.exited
    },
    async kill() {
      const postmaster = pid()
      if (postmaster === undefined) return
      // A suspended postmaster starts no process that would be missed.
      end(postmaster, 'SIGSTOP')
      await until('the postmaster stands still', withinMs, () => /[TZ]/.test(stateOf(postmaster)))
      const members = family(postmaster)
      for (const member of members.toReversed()) end(member, 'SIGKILL')
      isPaused = false
      await child?.exited
      await until('all its processes are gone', withinMs, () =>
        members.every(member => /^Z?$/.test(stateOf(member))),
      )
    },
    async pause() {
      const postmaster = pid()
      if (postmaster === undefined) return
      isPaused = true
      // The postmaster is suspended first. What it started before that is found when it is.
      await until('all its processes stand still', withinMs, () => {
        const moving = family(postmaster).filter(member => !/[TZ]/.test(stateOf(member)))
        for (const member of moving.toReversed()) end(member, 'SIGSTOP')
        return moving.length === 0
      })
    },
    async resume() {
      const postmaster = pid()
      isPaused = false
      if (postmaster !== undefined) for (const member of family(postmaster)) end(member, 'SIGCONT')
    },
    async createStandby({ synchronous: isSynchronous, delayMs }) {
      const name = `standby_${++standbys}`
      const proxy = delayMs === undefined ? undefined : await freezingProxy(port)
      proxy?.delay(delayMs ?? 0)
      /** Sets whose acknowledgement commits wait for. */
      const waitForSynchronous = () => {
        const names = [...synchronous]
        return own.psql(`
          ALTER SYSTEM SET synchronous_standby_names = '${names.length > 0 ? `FIRST ${names.length} (${names.join()})` : ''}';
          SELECT pg_reload_conf();`)
      }
      const standby = await open(async data => {
        const primary = `host=127.0.0.1 user=${superuser} application_name=${name}`
        const copy = ['--checkpoint=fast', '--no-sync', '--wal-method=stream', '--write-recovery-conf']
        await runAsServer(
          [
            postgresProgram('pg_basebackup'),
            ...['-d', `${primary} port=${port}`, '-D', data, '--create-slot', `--slot=${name}`, ...copy],
          ],
          data,
        )
        // Nothing that was set on the primary later, such as the names of its synchronous standbys.
        writeFileSync(
          join(data, 'postgresql.auto.conf'),
          `primary_conninfo = '${primary} port=${proxy?.port ?? port}'\nprimary_slot_name = '${name}'\n`,
        )
      }).catch(async error => {
        await proxy?.close()
        throw error
      })
      if (isSynchronous) {
        synchronous.add(name)
        await waitForSynchronous()
      }
      const state = `SELECT state, sync_state FROM pg_stat_replication WHERE application_name = '${name}'`
      const wanted = isSynchronous ? 'streaming|sync' : 'streaming|async'
      await until('the standby streams', withinMs, async () => (await own.psql(state)) === wanted)
      const isOfUse = () => pid() !== undefined && !isPaused
      const close = standby[Symbol.asyncDispose]
      // Properties are copied with their getters.
      return Object.defineProperties(standby, {
        ...Object.getOwnPropertyDescriptors({
          replication: proxy,
          async promote() {
            await standby.psql(`SELECT pg_promote(true, ${withinMs / 1000})`)
          },
          async [Symbol.asyncDispose]() {
            await close()
            await proxy?.close()
            if (synchronous.delete(name) && isOfUse()) await waitForSynchronous()
            const slot = `FROM pg_replication_slots WHERE slot_name = '${name}' AND NOT active`
            // A slot keeps files of the primary until it is dropped. It is free when its connection has ended.
            if (isOfUse())
              await until('the slot of the standby is dropped', withinMs, async () =>
                Boolean(await own.psql(`SELECT pg_drop_replication_slot(slot_name), 'dropped' ${slot}`)),
              )
          },
        }),
      }) as Standby
    },
    async [Symbol.asyncDispose]() {
      guard.stdin.end()
      await guard.exited
      await child?.exited
      rmSync(dir, { recursive: true, force: true })
      folders.delete(dir)
    },
  }

  try {
    await runAsServer(['mkdir', '-m', '700', data], dir)
    writeFileSync(join(dir, 'log'), '')
    await fill(data)
    await own.start()
    return own
  } catch (error) {
    await own[Symbol.asyncDispose]()
    throw error
  }
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

/** Returns the postmaster's file; empty while there is none. */
function stateFile(data: string): string {
  try {
    return readFileSync(join(data, 'postmaster.pid'), 'utf8')
  } catch {
    return ''
  }
}

/** Returns the state of a process as one letter: T is suspended, Z has ended; empty if it is gone. */
function stateOf(pid: number): string {
  try {
    return /.*\) (\S)/s.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1] ?? ''
  } catch {
    return ''
  }
}
