/** A data directory to look at, made by a real gateway against a real sandbox, and the look itself. */
import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConfigValues, configFromValues } from '../../src/config.ts'
import { examine, type Report } from '../../src/doctor/examine.ts'
import type { DoctorFinding } from '../../src/doctor/finding.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { version } from '../../src/version.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { undisturbed } from '../support/undisturbed.ts'

export interface Ward extends AsyncDisposable {
  readonly dir: string
  readonly sandbox: TestSandbox
  /** Looks at the directory, with the sandbox as upstream and no port of a service unless one is given. */
  look(values?: ConfigValues, more?: { clock?: Clock; deadlineMs?: number }): Promise<Look>
  /** A gateway of this directory. */
  open(options?: Parameters<typeof withGateway>[0]): Promise<TestGateway>
}

interface Look extends Report {
  /** The findings of one check, by `subject/check`. */
  of(check: string): DoctorFinding[]
  /** What is not ok, as `subject/check severity`. */
  troubles: string[]
}

/** A directory with one connected session "work", one user who wrote, and nobody who polls. */
export async function withWard(): Promise<Ward> {
  const sandbox = await withSandbox()
  const parent = await realpath(await mkdtemp(join(tmpdir(), 'svc-doctor-')))
  const dir = join(parent, 'data')
  const open: Ward['open'] = options => withGateway({ dir, sandbox, sessions: [], ...options })
  {
    await using gateway = await open({ sessions: ['work'] })
    await sandbox.say('hello', { to: gateway.bots.get('work')!.bot_id })
    await gateway.receive(1)
  }
  return {
    ...{ dir, sandbox, open },
    async look(values = {}, { clock, deadlineMs } = {}) {
      const config = configFromValues({
        ...{ basePath: dir, upstreamUrl: sandbox.url, cdnUrl: sandbox.cdnUrl, port: 0 },
        ...values,
      })
      const report = await undisturbed(() =>
        examine({
          ...{ config, version },
          ...(clock && { clock }),
          ...(deadlineMs !== undefined && { deadlineMs }),
        }),
      )
      return {
        ...report,
        of: check => report.findings.filter(finding => `${finding.subject}/${finding.check}` === check),
        troubles: report.findings
          // Whether /tmp lies on a disk is not for these tests to say. Nor is that there is no backup.
          .filter(({ severity, check }) => severity !== 'ok' && !['filesystem', 'backup'].includes(check))
          .map(({ subject, check, severity }) => `${subject}/${check} ${severity}`),
      }
    },
    async [Symbol.asyncDispose]() {
      await sandbox[Symbol.asyncDispose]()
      await rm(parent, { recursive: true, force: true })
    },
  }
}

/** What the finding nobody mends by looking is: nobody polls. */
export const idle = 'locks/poller warning'

/** Everything about a folder that a reader must leave alone: names, modes, owners, times of change, content. */
export function stateOf(dir: string, except: RegExp = /$^/): string[] {
  return ['.', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })]
    .filter(name => !except.test(name))
    .sort()
    .map(name => {
      const path = join(dir, name)
      const { mode, uid, mtimeMs, size } = lstatSync(path)
      const content = lstatSync(path).isFile()
        ? createHash('sha256').update(readFileSync(path)).digest('hex')
        : ''
      return `${name} ${mode.toString(8)} ${uid} ${mtimeMs} ${size} ${content}`
    })
}

/** A clock on which waiting takes no time. */
export function hurriedClock(): Clock {
  let ahead = 0
  return {
    now: () => Date.now(),
    monotonic: () => performance.now() + ahead,
    sleep(ms) {
      ahead += ms
      return new Promise(resolve => setImmediate(resolve))
    },
  }
}
