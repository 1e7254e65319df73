/** A simulated WeChat in a process of its own and several `svc openapi --sandbox` on one data directory, each replaced after its death. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FailOptions, FaultEndpoint, FaultKind } from '../../support/faults.ts'
import { lived } from './lived.ts'
import { type Phone, phoneAt } from './phone.ts'
import { type Program, pollLockNote, runSvc, started, until } from './program.ts'
import type { Door } from './readers.ts'

export interface Kill {
  pid: number
  /** Unix ms. */
  at: number
  /** The same moment by `lived`. */
  lived: number
  /** Unix ms: it had ended. Until then what upstream answers goes to it, and nobody reads it. */
  gone: number
  /** Whether it held the poll lock. */
  wasPoller: boolean
  /** Whether it had not said yet that it listens. */
  wasStarting: boolean
}

export interface Fleet extends AsyncDisposable {
  readonly dir: string
  readonly phone: Phone
  readonly size: number
  /** Every process there was. */
  readonly programs: readonly Program[]
  readonly kills: readonly Kill[]
  readonly doors: readonly Door[]
  /** Where the poller is now; undefined between two. */
  pollerPlace(): number | undefined
  /** SIGKILL, and no new one yet. */
  kill(place: number): Promise<Kill>
  /** Starts a new one at a place whose process is dead; does not wait until it is ready. */
  restart(place: number): void
  /** Waits until every place answers. */
  allReady(): Promise<void>
  /** SIGTERM to all but the sandbox. @returns their exit statuses */
  stop(): Promise<number[]>
}

export interface FleetOptions {
  size: number
  /** The program and its first arguments; the sources by default. */
  command?: string[]
  args?: string[]
  /** What upstream gets wrong, from the first request on. */
  faults?: readonly (FailOptions & { endpoint: FaultEndpoint; kind: FaultKind })[]
}

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-fleet-'))
  const { command } = options
  const run = (args: string[]) => runSvc(args, { cwd: dir, ...(command && { command }) })
  const common = ['--no-banner', '-d', dir]
  const programs: Program[] = []
  const kills: Kill[] = []
  const places: Program[] = []
  const start = (place: number) => {
    const program = run(['openapi', ...common, '--port', '0', '--sandbox', ...(options.args ?? [])])
    places[place] = program
    programs.push(program)
  }
  const sandbox = runSvc([join(dir, 'sandbox'), JSON.stringify(options.faults ?? [])], {
    command: [process.execPath, join(import.meta.dir, 'sandbox-program.ts')],
  })
  const dispose = async () => {
    await Promise.all([...places, sandbox].map(program => program[Symbol.asyncDispose]()))
    await rm(dir, { recursive: true, force: true })
  }
  try {
    await started(sandbox)
    for (let place = 0; place < options.size; place++) start(place)
    await Promise.all(places.map(started))
  } catch (error) {
    await dispose()
    throw error
  }
  return {
    dir,
    phone: phoneAt(sandbox.phoneUrl),
    size: options.size,
    programs,
    kills,
    doors: Array.from({ length: options.size }, (_, place) => () => {
      const program = places[place]!
      return program.url && program.killedAt === undefined ? program : undefined
    }),
    pollerPlace() {
      const pid = pollLockNote(dir)?.pid
      const place = places.findIndex(program => program.pid === pid && program.killedAt === undefined)
      return place < 0 ? undefined : place
    },
    async kill(place) {
      const program = places[place]!
      const { pid } = program
      const wasStarting = program.url === ''
      const holds = () => pollLockNote(dir)?.pid === pid
      // Read in the same breath as the kill, on both sides of it: it may be taking the lock over right now.
      const at = Date.now()
      const kill = { pid, at, lived: lived(), gone: at, wasPoller: holds(), wasStarting }
      kills.push(kill)
      const died = program.kill()
      kill.wasPoller ||= holds()
      await died
      kill.gone = Date.now()
      return kill
    },
    restart: start,
    async allReady() {
      await until('every process answers', 30_000, () => places.every(program => program.url !== ''))
    },
    stop: () => Promise.all(places.map(program => program.kill('SIGTERM'))),
    [Symbol.asyncDispose]: dispose,
  }
}
