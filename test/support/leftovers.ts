/**
 * Loaded before the usual tests. The test files of a worker share one process, so each must leave it as it
 * found it: a file that does not fails, by its name.
 */
import { afterAll, beforeAll } from 'bun:test'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
// It changes the process when it is loaded, which lasts: so that happens before the first file.
import 'proper-lockfile'
import { isGuard } from './port.ts'
import { sharedPrograms } from './shared-programs.ts'

/** How long what a test has just ended may take. */
const endsWithinMs = 10_000
/** A clock that a test set is off by more. */
const clockMs = 1000

/** What one file could leave to the next, by a name for people. */
type Traces = ReadonlyMap<string, unknown>

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGPIPE'] as const
const faults = ['uncaughtException', 'unhandledRejection', 'warning', 'beforeExit'] as const

/** Everything that is the same at once when a test has put it back. */
function traces(): Traces {
  const found = new Map<string, unknown>([
    ['the working folder', process.cwd()],
    ['the umask', process.umask()],
    ['the exit code', process.exitCode],
    ['the arguments', process.argv.join('\0')],
    ['a clock that was set', Math.abs(performance.timeOrigin + performance.now() - Date.now()) > clockMs],
  ])
  for (const [name, value] of Object.entries(process.env)) found.set(`the variable ${name}`, value)
  for (const name of [...signals, ...faults]) found.set(`handlers of ${name}`, process.listenerCount(name))
  for (const [title, holder] of Object.entries({
    globalThis,
    console,
    process,
    Date,
    performance,
    Math,
    crypto,
    Bun,
  }))
    for (const [name, { value, get }] of Object.entries(Object.getOwnPropertyDescriptors(holder)))
      if (typeof value === 'function' || get) found.set(`${title}.${name}`, value ?? get)
  return found
}

/** Processes and listening sockets, which may take a moment to end. */
function running(): Traces {
  if (process.platform !== 'linux') return new Map()
  const found = new Map<string, unknown>()
  const sockets = new Set(
    listLinks('/proc/self/fd').flatMap(link => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []),
  )
  for (const table of ['tcp', 'tcp6', 'unix'])
    for (const line of readFileSync(`/proc/self/net/${table}`, 'latin1').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/)
      const [listens, socket] =
        table === 'unix' ? [fields[3] === '00010000', fields[6]] : [fields[3] === '0A', fields[9]]
      const isOurs = table === 'unix' || !isGuard(Number.parseInt(fields[1]?.split(':')[1] ?? '', 16))
      if (listens && isOurs && socket !== undefined && sockets.has(socket))
        found.set(`an open server (${table} ${table === 'unix' ? fields[7] : fields[1]})`, socket)
    }
  for (const pid of readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1')
    .split(' ')
    .filter(Boolean)) {
    const command = readCommand(pid)
    if (command && ![...sharedPrograms].some(part => command.includes(part)))
      found.set(`process ${pid} (${command.slice(0, 200)})`, pid)
  }
  return found
}

function listLinks(folder: string): string[] {
  return readdirSync(folder).flatMap(name => {
    try {
      return readlinkSync(`${folder}/${name}`)
    } catch {
      return []
    }
  })
}

/** @returns an empty text for a process that has ended */
function readCommand(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ')
  } catch {
    return ''
  }
}

/** @returns the names that differ */
const differences = (before: Traces, after: Traces): string[] =>
  [...new Set([...before.keys(), ...after.keys()])].filter(name => before.get(name) !== after.get(name))

let before: Traces = new Map()
let ranBefore: Traces = new Map()

beforeAll(() => {
  before = traces()
  ranBefore = running()
})

afterAll(async () => {
  // A long one has a process of its own, but where it is named among usual ones.
  if (Bun.main.endsWith('.long.test.ts')) return
  const left = differences(before, traces())
  const more = () => [...running().keys()].filter(name => !ranBefore.has(name))
  for (const endsAt = performance.now() + endsWithinMs; more().length > 0 && performance.now() < endsAt; )
    await new Promise(resolve => setTimeout(resolve, 20))
  left.push(...more())
  if (left.length > 0) throw new Error(`${Bun.main} does not leave as it was:\n  ${left.join('\n  ')}`)
})
