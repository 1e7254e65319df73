/** Runs every check on its own; one that fails does not stop the others. */
import { svcCommand } from '../inspect/advised-commands.ts'
import { lookAtDirectory, sightOf } from '../inspect/data-directory.ts'
import { systemClock } from '../platform/clock.ts'
import { maskText } from '../platform/log.ts'
import { reasonOf } from '../platform/system-error.ts'
import { examineDirectory } from './directory.ts'
import { examineExposure } from './exposure.ts'
import {
  bad,
  type DoctorContext,
  type Finding,
  type Found,
  type Severity,
  type Subject,
  subjects,
} from './finding.ts'
import { examineLocks } from './locks.ts'
import { examineClock, examineDisk, examineRuntime } from './machine.ts'
import { examineNetwork, type NetworkFindings } from './network.ts'
import { examineServices, type SeenService } from './service.ts'
import { examineSessions } from './sessions.ts'
import { examineStore, type StoreLook } from './store.ts'

type Given = Pick<DoctorContext, 'config' | 'version' | 'address' | 'unknownVariables'>
export interface ExamineOptions extends Given, Partial<Pick<DoctorContext, 'clock' | 'deadlineMs'>> {
  /** Returns the services that svc installed on this machine. */
  services?(): Promise<readonly SeenService[]>
}

export interface Report {
  /** True if no finding is an error. */
  ok: boolean
  version: string
  base_path: string
  /** Unix ms. */
  examined_at: number
  counts: Record<Severity, number>
  /** Findings in the order of `subjects`. */
  findings: Finding[]
}

/** Runs all checks. Changes nothing, and does not throw for a problem that it finds. */
export async function examine(options: ExamineOptions): Promise<Report> {
  const { config, version, clock = systemClock, deadlineMs = 5000, services = async () => [] } = options
  const directory = await lookAtDirectory(config.basePath, config.sandbox)
  const stored = sightOf(config.basePath)
  // First and alone: reading whole files blocks this process, and the other checks measure time.
  const store = await stored.store({ check: true }).then(
    (sight): StoreLook => ({ sight }),
    (error): StoreLook => ({ error }),
  )
  const sight = 'sight' in store ? store.sight : undefined
  const [polling, sessions] = await Promise.all([
    stored.polling(clock).catch(() => undefined),
    stored.sessions().catch(() => ({ sessions: [] })),
  ])
  const command = (words: string) => svcCommand(words, directory.dir, directory.isSandbox)
  const context: DoctorContext = { ...options, clock, deadlineMs, directory, polling, sessions, command }

  const network = examineNetwork(context).catch((error): NetworkFindings => ({ found: [unexamined(error)] }))
  const checks: Record<Subject, () => Found[] | Promise<Found[]>> = {
    runtime: () => examineRuntime(context),
    directory: () => examineDirectory(context),
    locks: () => examineLocks(context),
    clock: async () => examineClock(context, (await network).upstream),
    disk: () => examineDisk(context),
    sessions: () => examineSessions(context, sight),
    store: () => examineStore(context, store),
    network: async () => (await network).found,
    exposure: () => examineExposure(context),
    service: async () => examineServices(context, await services()),
  }
  const found = await Promise.all(
    subjects.map(async (subject): Promise<Finding[]> => {
      const list = await (async () => checks[subject]())().catch(error => [unexamined(error)])
      return list.map(({ check, severity, what, fix }) => ({
        subject,
        check,
        severity,
        what: maskText(what),
        ...(fix !== undefined && { fix: maskText(fix) }),
      }))
    }),
  )
  const findings = found.flat()
  const count = (severity: Severity) => findings.filter(finding => finding.severity === severity).length
  const counts = { ok: count('ok'), note: count('note'), warning: count('warning'), error: count('error') }
  return {
    ok: counts.error === 0,
    version,
    base_path: config.basePath,
    examined_at: clock.now(),
    counts,
    findings,
  }
}

const unexamined = (error: unknown): Found =>
  bad(
    'examined',
    `this check failed: ${reasonOf(error)}`,
    'Check the path and its permissions; else report this as a bug of svc.',
  )
