/** Runs every check on its own; one that fails does not stop the others. */

import { listNotes } from '../config/notes.ts'
import { svcCommand } from '../inspect/advised-commands.ts'
import { inspectDirectory, openInspection } from '../inspect/data-directory.ts'
import {
  type Finding,
  type Found,
  findFailingTasks,
  finding,
  listFindings,
  type Severity,
} from '../inspect/finding.ts'
import { systemClock } from '../platform/clock.ts'
import { maskText } from '../platform/log.ts'
import { reasonOf } from '../platform/system-error.ts'
import { type ClusterReading, examineCluster } from './cluster.ts'
import { examineDirectory } from './directory.ts'
import { examineExposure } from './exposure.ts'
import { type DoctorContext, type DoctorFinding, type Subject, subjects } from './finding.ts'
import { examineLocks } from './locks.ts'
import { examineClock, examineDisk, examineRuntime } from './machine.ts'
import { examineNetwork, type NetworkFindings } from './network.ts'
import { examineSecrets } from './secrets.ts'
import { examineServices, type InstalledService } from './service.ts'
import { examineSessions } from './sessions.ts'
import { examineStore, type StoreReading } from './store.ts'

type ExamineInput = Pick<DoctorContext, 'config' | 'version' | 'address' | 'unknownVariables'>
export interface ExamineOptions extends ExamineInput, Partial<Pick<DoctorContext, 'clock' | 'deadlineMs'>> {
  /** Returns the services that svc installed on this machine. */
  services?(): Promise<readonly InstalledService[]>
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
  findings: DoctorFinding[]
}

/** Runs all checks. Changes nothing, and does not throw for a problem that it finds. */
export async function examine(options: ExamineOptions): Promise<Report> {
  const { config, version, clock = systemClock, deadlineMs = 5000, services = async () => [] } = options
  const directory = await inspectDirectory(config.basePath, config.sandbox)
  const stored = await openInspection(config)
  const cluster = await stored.readCluster(clock).then(
    (state): ClusterReading => ({ state }),
    (error): ClusterReading => ({ error }),
  )
  // The check of the cluster reports it, and the other ones wait for nothing.
  const isAway = 'error' in cluster
  // Alone: reading whole files blocks this process, and the other checks measure time.
  const store: StoreReading = isAway
    ? { sight: undefined }
    : await stored.readStoreStats({ check: true }).then(
        (sight): StoreReading => ({ sight }),
        (error): StoreReading => ({ error }),
      )
  const sight = 'sight' in store ? store.sight : undefined
  const [polling, sessions] = isAway
    ? [undefined, { sessions: [] }]
    : await Promise.all([
        stored.checkPolling(clock).catch(() => undefined),
        stored.listSessions().catch(() => ({ sessions: [] })),
      ])
  const command = (words: string) => svcCommand(words, directory.dir, directory.isSandbox)
  const context: DoctorContext = { ...options, clock, deadlineMs, directory, polling, sessions, command }

  const network = examineNetwork(context).catch((error): NetworkFindings => ({ found: failedCheck(error) }))
  const checks: Record<Subject, () => Found | Promise<Found>> = {
    runtime: () => examineRuntime(context),
    directory: async () => [await examineDirectory(context), await examineSecrets(context, stored)],
    locks: () => examineLocks(context),
    clock: async () => examineClock(context, (await network).upstream),
    disk: () => examineDisk(context),
    sessions: () => !isAway && examineSessions(context, sight),
    store: () => examineStore(context, store),
    cluster: () => examineCluster(context, cluster),
    network: async () => (await network).found,
    exposure: () => examineExposure(context),
    service: async () => [
      (await listNotes(directory.dir)).map(({ failing_tasks = [] }) => findFailingTasks(failing_tasks)),
      await examineServices(context, await services()),
    ],
  }
  const found = await Promise.all(
    subjects.map(async (subject): Promise<DoctorFinding[]> => {
      const list = await (async () => checks[subject]())().catch(failedCheck)
      return listFindings(list).map(({ check, severity, what, fix }) => ({
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

const failedCheck = (error: unknown): Finding =>
  finding.error(
    'examined',
    `this check failed: ${reasonOf(error)}`,
    'Check the path and its permissions; else report this as a bug of svc.',
  )
