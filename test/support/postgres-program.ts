/** The programs of PostgreSQL on this machine, the user that runs them, and a new cluster to copy. */
import { chownSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ended } from './ended.ts'

/** The role that owns the databases, its password, and the superuser, who needs none. */
export const role = 'svc'
export const password = 'secret'
export const superuser = 'postgres'

const versions = '/usr/lib/postgresql'
/** Tools of util-linux and findutils, which every Debian has. */
const tools = ['setpriv', 'setsid', 'flock', 'ipcrm', 'find', 'cp', 'sh']

/** Returns the newest version's folder, such as `/usr/lib/postgresql/15`; undefined if there is none. */
function findHome(): string | undefined {
  if (process.platform !== 'linux' || !existsSync(versions)) return undefined
  const found = readdirSync(versions).filter(version => existsSync(join(versions, version, 'bin/postgres')))
  const newest = found.sort((one, other) => Number(one) - Number(other)).at(-1)
  return newest === undefined ? undefined : join(versions, newest)
}

interface ServerUser {
  uid: number
  gid: number
  /** Starts a program as this user; empty if the tests run as this user. */
  prefix: string[]
}

/** PostgreSQL refuses to run as root. Tests that run as root use its own user, or `nobody`. */
function findUser(): ServerUser | undefined {
  const uid = process.getuid?.() ?? -1
  if (uid !== 0) return { uid, gid: process.getgid?.() ?? -1, prefix: [] }
  const users = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : ''
  for (const name of ['postgres', 'nobody']) {
    const [, user, group] = new RegExp(`^${name}:[^:]*:(\\d+):(\\d+):`, 'm').exec(users) ?? []
    if (user === undefined || group === undefined) continue
    const prefix = ['setpriv', `--reuid=${user}`, `--regid=${group}`, '--clear-groups', '--no-new-privs']
    return { uid: Number(user), gid: Number(group), prefix: [...prefix, '--'] }
  }
  return undefined
}

const home = findHome()
const user = findUser()
/** Whether PostgreSQL can be started here. */
export const isThere = home !== undefined && user !== undefined && tools.every(name => Bun.which(name))
let hasWarned = false

/** Returns whether PostgreSQL can be started here. The first time that it cannot, a line says so. */
export function isPostgresThere(): boolean {
  if (!isThere && !hasWarned) {
    console.warn(
      `skipped: tests with PostgreSQL, since ${user ? `${versions} or a tool` : 'a user for it'} is missing`,
    )
    hasWarned = true
  }
  return isThere
}

/** Returns the path of a program of PostgreSQL. */
export function postgresProgram(name: string): string {
  if (home === undefined) throw new Error(`there is no PostgreSQL in ${versions}`)
  return join(home, 'bin', name)
}

/** Returns the command that runs a program as the server's user. */
export const asServer = (command: readonly string[]): string[] => [...(user?.prefix ?? []), ...command]

/** Gives a folder to the server's user. */
export function giveToServer(path: string): void {
  if (user && process.getuid?.() === 0) chownSync(path, user.uid, user.gid)
}

/** The environment of the programs: no settings of the caller, and messages in English. */
export const programEnv: Record<string, string> = { PATH: process.env.PATH ?? '', LC_ALL: 'C.UTF-8' }

/** Runs a program of the server's user to its end. @throws Error with its output if it fails */
export async function runAsServer(command: readonly string[], cwd: string): Promise<void> {
  const { status, stdout, stderr } = await ended(asServer(command), { cwd, env: programEnv })
  if (status !== 0) throw new Error(`${command[0]} failed (${status}):\n${stdout}${stderr}`)
}

const hasStatements = home !== undefined && existsSync(join(home, 'lib/pg_stat_statements.so'))

/** Only what differs from the default. Everything that makes a commit durable keeps its default. */
const settings = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
shared_buffers = 32MB
fsync = on
wal_level = replica
max_wal_senders = 5
hot_standby = on
max_wal_size = 256MB
password_encryption = scram-sha-256
# A standby whose primary was away connects again soon.
wal_retrieve_retry_interval = 100ms
# In the data directory instead of /dev/shm, so that a killed server leaves nothing there.
dynamic_shared_memory_type = mmap
${hasStatements ? 'shared_preload_libraries = pg_stat_statements' : ''}
`

const access = `
host all ${superuser} 127.0.0.1/32 trust
host replication ${superuser} 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
`

/**
 * Makes the cluster in $1 with the programs in $2, unless it is there. Sorts text by language, as most
 * servers do, so that a test notices who relies on the order of bytes.
 */
const make = `set -e
[ ! -e "$1" ] || exit 0
new=$1.new
rm -rf "$new"
"$2/initdb" -D "$new" -U ${superuser} --no-sync --no-instructions --encoding=UTF8 --locale=C.UTF-8 \\
  --locale-provider=icu --icu-locale=en-US
printf '%s' "$3" >>"$new/postgresql.conf"
printf '%s' "$4" >"$new/pg_hba.conf"
echo "CREATE ROLE ${role} LOGIN PASSWORD '${password}'" | "$2/postgres" --single -D "$new" postgres
mv "$new" "$1"`

/**
 * Returns the folder of everything that the server's user writes, in the folder of temporary files. It belongs
 * to that user, who can thus remove what is in it.
 */
export function serverFolder(): string {
  if (!isThere || !user) throw new Error(`there is no PostgreSQL in ${versions}`)
  const folder = join(realpathSync(tmpdir()), `svc-postgres-${user.uid}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const { uid } = lstatSync(folder)
  if (uid === process.getuid?.()) giveToServer(folder)
  else if (uid !== user.uid) throw new Error(`${folder} belongs to another user`)
  return folder
}

/**
 * Makes a cluster once per folder of temporary files, since making one takes a second and copying it a tenth
 * of that. A lock lets test files in parallel wait for the one that makes it.
 *
 * @returns its data directory, to be copied
 */
export async function templateCluster(): Promise<string> {
  const folder = serverFolder()
  const recipe = Bun.hash([home, make, settings, access].join('\n')).toString(36)
  const data = join(folder, `template-${recipe}`)
  if (existsSync(data)) return data
  const script = ['sh', '-c', make, 'sh', data, postgresProgram('.'), settings, access]
  await runAsServer(['flock', `${data}.lock`, ...script], folder)
  return data
}
