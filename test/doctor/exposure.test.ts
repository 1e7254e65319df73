import { describe, expect, test } from 'bun:test'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { forFile } from '../support/folder.ts'
import { rawServer } from '../support/servers.ts'
import { idle, withWard } from './support.ts'

const ward = forFile(await withWard())
const good = 'kX3vQ9tLw0pZbN7rYd2c'

const serving = (body: unknown, status = 200) =>
  Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => Response.json(body, { status }) })
const healthy = {
  status: 'ok',
  version: '0.0.0',
  role: 'poller',
  stalled: false,
  sessions: 0,
  connected: 0,
  store: 'ok',
}

describe('the port', () => {
  test('a stranger on it is an error where svc is to start, and a note where it serves already', async () => {
    using stranger = serving({ hello: 'world' })
    const { port } = stranger
    expect((await ward.look({ port })).of('exposure/port')).toMatchObject([
      { severity: 'error', fix: `svc openapi --port 0 -d ${ward.dir}` },
    ])
    await using _gateway = await ward.open()
    expect((await ward.look({ port })).troubles).toEqual(['exposure/port note'])
  })

  test('what speaks no HTTP, and what says nothing, is no svc', async () => {
    for (const word of ['220 mail.example.org ESMTP\r\n', undefined]) {
      await using server = await rawServer(socket => word && socket.end(word))
      const { port } = server
      expect((await ward.look({ port }, { deadlineMs: 500 })).of('exposure/port')).toMatchObject([
        { severity: 'error' },
      ])
    }
  })

  test('a service of another version, one of another directory, and one whose store fails', async () => {
    using service = serving(healthy)
    const { port } = service
    expect((await ward.look({ port })).of('exposure/port')).toMatchObject([
      { severity: 'note', what: expect.stringContaining('for another data directory') },
    ])
    await using _gateway = await ward.open()
    expect((await ward.look({ port })).of('exposure/port')).toMatchObject([
      { severity: 'warning', what: expect.stringContaining('svc 0.0.0 answers') },
    ])
    const degraded = { ...healthy, status: 'degraded', store: 'unavailable' }
    using failing = serving(degraded, 503)
    expect((await ward.look({ port: failing.port })).of('exposure/port')).toMatchObject([
      { severity: 'error', what: expect.stringContaining('its message store does not work') },
    ])
    const trouble = { message: 'messages.db was removed', hint: 'Restart svc.' }
    using lost = serving({ ...degraded, trouble }, 503)
    expect((await ward.look({ port: lost.port })).of('exposure/port')).toMatchObject([
      { severity: 'error', what: expect.stringContaining('messages.db was removed'), fix: 'Restart svc.' },
    ])
  })

  test('an address of another machine', async () => {
    // A link's own address without its link: nothing leaves this machine.
    const look = await ward.look({ host: 'fe80::1', port: 1, token: good }, { deadlineMs: 500 })
    expect(look.of('exposure/port')).toMatchObject([{ severity: 'error' }])
  })
})

test('the certificate that a running service wrote down', async () => {
  const day = 24 * 60 * 60_000
  const severityAt = async (days: number) => {
    const certificate = { fingerprint: 'AB:CD', expires_at: Date.now() + days * day }
    const noted = { url: 'https://127.0.0.1:1', pid: process.pid, open: true, certificate }
    writeFileSync(join(ward.dir, '.address'), JSON.stringify(noted))
    const look = await ward.look({ token: good })
    return [look.of('exposure/certificate')[0]?.severity, look.of('exposure/exposure')[0]?.severity]
  }
  expect([await severityAt(30), await severityAt(10), await severityAt(-1)]).toEqual([
    ['ok', 'ok'],
    ['warning', 'ok'],
    ['error', 'ok'],
  ])
  rmSync(join(ward.dir, '.address'))
})

describe('the token', () => {
  test('options with which others can reach svc are worth a note', async () => {
    expect((await ward.look({ token: good })).troubles).toEqual([idle])
    const open = await ward.look({ token: good, host: '0.0.0.0' })
    expect(open.troubles).toEqual([idle, 'exposure/exposure note'])
    expect(JSON.stringify(open)).not.toContain(good)
  })

  test('so is a service that others can reach, whatever doctor itself is given', async () => {
    const address = join(ward.dir, '.address')
    const noted = { url: 'http://127.0.0.1:1', pid: process.pid, open: true }
    writeFileSync(address, JSON.stringify(noted))
    expect((await ward.look({ token: good })).troubles).toContain('exposure/exposure note')
    writeFileSync(address, JSON.stringify({ ...noted, open: undefined }))
    expect((await ward.look({ token: good })).troubles).not.toContain('exposure/exposure note')
    rmSync(address)
  })

  test('so is a proxy that is not trusted, by what the running service wrote down if one runs', async () => {
    const given = { token: good, allowHosts: 'svc.example.org' }
    expect((await ward.look(given)).troubles).toEqual([idle, 'exposure/proxy note'])
    expect((await ward.look({ token: good, publicUrl: 'https://svc.example.org' })).troubles).toEqual([
      idle,
      'exposure/proxy note',
    ])
    const trusted = { ...given, trustedProxies: '127.0.0.1' }
    expect((await ward.look(trusted)).troubles).toEqual([idle])
    const address = join(ward.dir, '.address')
    const noted = { url: 'http://127.0.0.1:1', pid: process.pid }
    writeFileSync(address, JSON.stringify(noted))
    expect((await ward.look(given)).troubles).not.toContain('exposure/proxy note')
    writeFileSync(address, JSON.stringify({ ...noted, untrusted_proxy: true }))
    const [found] = (await ward.look(trusted)).of('exposure/proxy')
    expect(found).toMatchObject({ severity: 'note', fix: expect.stringContaining('--trust-proxy') })
    rmSync(address)
  })

  test('api_token: readable by others', async () => {
    const path = join(ward.dir, 'api_token')
    writeFileSync(path, `${good}\n`, { mode: 0o600 })
    expect((await ward.look()).troubles).toEqual([idle])
    if (process.platform !== 'win32') {
      chmodSync(path, 0o640)
      expect((await ward.look()).troubles).toEqual(['directory/rights warning', idle])
    }
    rmSync(path)
  })
})
