import { expect, test } from 'bun:test'
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { configFromValues } from '../../src/config.ts'
import { examine } from '../../src/doctor/examine.ts'
import type { InstalledService } from '../../src/doctor/service.ts'
import type { Health } from '../../src/gateway/health.ts'
import { forFile } from '../support/folder.ts'
import { withWard } from './support.ts'

const ward = forFile(await withWard())

const served = (basePath: string) => ({
  ...{ program: '/usr/local/bin/svc', config: configFromValues({ basePath }), url: 'http://127.0.0.1:8000' },
})
const answered = (version: string): InstalledService['answered'] => ({
  ...{ kind: 'svc', status: 200 },
  seen: { status: 'ok', version, role: 'poller', sessions: 0, connected: 0, store: 'ok' } as Health,
})

const sight: InstalledService = {
  title: 'the service svc of systemd',
  state: { loaded: true, enabled: true, state: 'active (running)', running: true },
  served: undefined,
  answered: answered('1.2.3'),
  advice: { logs: 'journalctl -u svc -f', restart: 'sudo systemctl restart svc' },
  install: 'sudo svc service install',
}

/** What is found of a service that runs well, but for what is `different`. */
async function found(different: Partial<InstalledService> = {}, services?: InstalledService[]) {
  const well: InstalledService = { ...sight, served: served(ward.dir) }
  const config = configFromValues({ basePath: ward.dir, upstreamUrl: ward.sandbox.url, port: 0 })
  const report = await examine({
    ...{ config, version: '1.2.3', deadlineMs: 500 },
    services: async () => services ?? [{ ...well, ...different }],
  })
  return report.findings
    .filter(({ subject }) => subject === 'service')
    .map(({ severity, what, fix = '' }) => `${severity}: ${what} (${fix})`)
}
const state = { loaded: true, enabled: true, state: 'failed', running: false }

test('without a service nothing is said; of one that runs well, so much, by whatever path', async () => {
  expect(await found({}, [])).toEqual([])
  const well = 'ok: the service svc of systemd runs and starts by itself ()'
  expect(await found()).toEqual([well])
  const link = join(ward.dir, '..', 'link')
  symlinkSync(ward.dir, link)
  expect(await found({ served: served(link) })).toEqual([well])
})

test('one that does not run, is of another version, or is not to start by itself', async () => {
  expect(await found({ state: { ...state, ended: 'exit-code, status 1' } })).toEqual([
    'warning: the service svc of systemd does not run: failed, exit-code, status 1 (Its log tells the reason: journalctl -u svc -f; to restart it: sudo systemctl restart svc)',
  ])
  expect(await found({ answered: answered('1.0.0') })).toEqual([
    'warning: the service svc of systemd runs svc 1.0.0; this is 1.2.3 (sudo systemctl restart svc)',
  ])
  expect(await found({ answered: undefined })).toEqual([
    'warning: the service svc of systemd runs, but does not answer on http://127.0.0.1:8000 (Its log tells the reason: journalctl -u svc -f; to restart it: sudo systemctl restart svc)',
  ])
  const disabled = { ...state, running: true, state: 'active (running)' }
  expect(await found({ state: { ...disabled, enabled: false } })).toEqual([
    'note: the service svc of systemd runs, and does not start by itself (Install it again: sudo svc service install)',
  ])
  expect(await found({ served: undefined })).toEqual([
    'note: the service svc of systemd has options of another version (Install it again: sudo svc service install)',
  ])
})

test('one of another data directory is worth a note where nobody polls this one', async () => {
  expect(await found({ served: served('/var/lib/svc'), state })).toEqual([
    'note: the service svc of systemd is of another data directory, /var/lib/svc (As its user: svc doctor -d /var/lib/svc)',
  ])
  const [well] = await found()
  const own = { ...sight, served: served(ward.dir) }
  const others = ['shop', 'work'].map(name => ({
    ...{ ...sight, title: `the service ${name} of systemd`, served: served('/var/lib/svc') },
  }))
  expect(await found({}, [others[0]!, own, others[1]!])).toEqual([well!])
  await using _gateway = await ward.open()
  expect(await found({ served: served('/var/lib/svc'), state })).toEqual([])
})
