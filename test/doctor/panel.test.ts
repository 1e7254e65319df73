import { afterAll, expect, test } from 'bun:test'
import { symlinkSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../support/port.ts'
import { startService } from '../support/service.ts'
import { withWard } from './support.ts'

const ward = await withWard()
afterAll(() => ward[Symbol.asyncDispose]())
const token = 'kX3vQ9tLw0pZbN7rYd2c'

const adminPort = (stdout: string) => Number(/^admin on \S+:(\d+)$/m.exec(stdout)?.[1])

test('without --admin-port nothing is said of a panel; with one that is free, so much', async () => {
  expect((await ward.look()).of('exposure/panel')).toEqual([])
  const port = freePort()
  expect((await ward.look({ adminPort: port })).of('exposure/panel')).toMatchObject([
    { severity: 'ok', what: `port ${port} is free for the panel` },
  ])
})

test('a stranger on the port is an error where svc is to start, and a note where it serves already', async () => {
  using stranger = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => Response.json({ info: {} }) })
  const { port } = stranger
  expect((await ward.look({ adminPort: port! })).of('exposure/panel')).toMatchObject([
    { severity: 'error', fix: `svc admin --admin-port 0 -d ${ward.dir}` },
  ])
  await using _gateway = await ward.open()
  expect((await ward.look({ adminPort: port! })).of('exposure/panel')).toMatchObject([{ severity: 'note' }])
  expect((await ward.look({ adminPort: freePort() })).of('exposure/panel')).toMatchObject([
    { severity: 'note', what: expect.stringContaining('though a process polls') },
  ])
})

test('the panel itself is known, also that of another directory and of another version', async () => {
  await using service = await startService({ args: ['--admin-port', '0'] })
  const port = adminPort(service.stdout())
  const own = { basePath: service.dir, upstreamUrl: undefined, cdnUrl: undefined, adminPort: port }
  const look = await ward.look(own)
  expect(look.of('exposure/panel')).toMatchObject([
    { severity: 'ok', what: expect.stringContaining(`answers on http://127.0.0.1:${port}`) },
  ])
  expect(look.of('exposure/panel_exposure')).toMatchObject([{ severity: 'ok' }])
  expect((await ward.look({ adminPort: port })).of('exposure/panel')).toMatchObject([
    { severity: 'note', what: expect.stringContaining('for another data directory') },
  ])
  // As this machine has it, whatever way leads there.
  const link = join(ward.dir, '..', 'link')
  symlinkSync(service.dir, link)
  expect((await ward.look({ ...own, basePath: link })).of('exposure/panel')).toMatchObject([
    { severity: 'ok' },
  ])
  using old = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => Response.json({ info: { title: 'svc admin panel', version: '0.0.0' } }),
  })
  expect((await ward.look({ adminPort: old.port! })).of('exposure/panel')).toMatchObject([
    { severity: 'warning', what: expect.stringContaining('svc 0.0.0') },
  ])
})

const outside = Object.values(networkInterfaces())
  .flat()
  .some(one => one && !one.internal && !one.address.startsWith('fe80:'))
test.skipIf(!outside)(
  'one that other machines can reach is told, with whether it wants a token (skipped without a network)',
  async () => {
    const args = ['--host', '0.0.0.0', '--admin-port', '0']
    await using service = await startService({ args, env: { SVC_TOKEN: token } })
    const values = { host: '0.0.0.0', token, adminPort: adminPort(service.stdout()) }
    const look = await ward.look(values)
    expect(look.of('exposure/panel_exposure')).toMatchObject([
      { severity: 'note', what: expect.stringContaining('it asks for the token') },
    ])
    expect(JSON.stringify(look)).not.toContain(token)
    const own = { ...values, basePath: service.dir, upstreamUrl: undefined, cdnUrl: undefined }
    expect((await ward.look(own)).of('exposure/panel')).toMatchObject([{ severity: 'ok' }])
    expect(look.of('exposure/panel')).toMatchObject([
      { severity: 'note', what: expect.stringContaining('for another data directory') },
    ])
    using open = Bun.serve({
      hostname: '0.0.0.0',
      port: 0,
      fetch: () => Response.json({ info: { title: 'svc admin panel', version: '0.0.0' } }),
    })
    expect(
      (await ward.look({ ...values, adminPort: open.port! })).of('exposure/panel_exposure'),
    ).toMatchObject([{ severity: 'error', what: expect.stringContaining('it asks for no token') }])
  },
)
