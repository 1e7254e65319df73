import { afterAll, expect, test } from 'bun:test'
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { configOf } from '../../src/config.ts'
import { examine } from '../../src/doctor/examine.ts'
import type { ServiceSight } from '../../src/doctor/service.ts'
import { withWard } from './support.ts'

const ward = await withWard()
afterAll(() => ward[Symbol.asyncDispose]())

const place = { basePath: '/var/lib/svc', sandbox: false, url: 'http://127.0.0.1:8000' }

const sight: ServiceSight = {
  title: 'the service svc of systemd',
  state: { loaded: true, enabled: true, state: 'active (running)', running: true },
  replaced: false,
  version: '1.2.3',
  advice: { logs: 'journalctl -u svc -f', restart: 'sudo systemctl restart svc' },
  install: 'sudo svc service install',
}

/** What is found of a service that runs well, but for what is `different`. */
async function found(different: Partial<ServiceSight> = {}, services?: ServiceSight[]) {
  const well: ServiceSight = { ...sight, place: { ...place, basePath: ward.dir } }
  const config = configOf({ basePath: ward.dir, upstreamUrl: ward.sandbox.url, port: 0 })
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
  expect(await found({ place: { ...place, basePath: link } })).toEqual([well])
})

test('one that does not run, is of another version, or is not to start by itself', async () => {
  expect(await found({ state: { ...state, ended: 'exit-code, status 1' } })).toEqual([
    'warning: the service svc of systemd does not run: failed, exit-code, status 1 (Its log says why: journalctl -u svc -f; to start it anew: sudo systemctl restart svc)',
  ])
  expect(await found({ version: '1.0.0' })).toEqual([
    'warning: the service svc of systemd runs svc 1.0.0; this is 1.2.3 (sudo systemctl restart svc)',
  ])
  expect(await found({ version: undefined })).toEqual([
    'warning: the service svc of systemd runs, and does not answer on http://127.0.0.1:8000 (Its log says why: journalctl -u svc -f; to start it anew: sudo systemctl restart svc)',
  ])
  expect(await found({ replaced: true })).toEqual([
    'warning: the program of the service svc of systemd was replaced since it started (sudo systemctl restart svc)',
  ])
  const disabled = { ...state, running: true, state: 'active (running)', enabled: false }
  expect(await found({ state: disabled })).toEqual([
    'ok: the service svc of systemd runs ()',
    'note: the service svc of systemd does not start by itself (Install it once more: sudo svc service install)',
  ])
  expect(await found({ state: { ...state, state: 'unknown' } })).toEqual([
    'note: the service svc of systemd is installed; how it is cannot be asked here ()',
  ])
  expect(await found({ place: undefined })).toEqual([
    'note: the service svc of systemd was told what this version does not know (Install it anew: sudo svc service install)',
  ])
})

test('one of another data directory is worth a note where nobody polls this one', async () => {
  expect(await found({ place, state })).toEqual([
    'note: the service svc of systemd is of another data directory, /var/lib/svc (As its user: svc doctor -d /var/lib/svc)',
  ])
  const [well] = await found()
  const own = { ...place, basePath: ward.dir }
  const others = ['shop', 'work'].map(name => ({ ...sight, title: `the service ${name} of systemd`, place }))
  expect(await found({}, [others[0]!, { ...sight, place: own }, others[1]!])).toEqual([well!])
  await using _gateway = await ward.open()
  expect(await found({ place, state })).toEqual([])
})
