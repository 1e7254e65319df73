import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { proxyFor } from '../../src/platform/process.ts'
import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { certificate, privateKey } from '../platform/certificate.ts'
import { folderOfTest, forFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { freePort } from '../support/port.ts'
import { rawServer } from '../support/servers.ts'
import { idle, stateOf, withWard } from './support.ts'

const ward = forFile(await withWard())

const serving = (answer: () => Response | Promise<Response>, tls?: { cert: string; key: string }) =>
  Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer, ...(tls && { tls }) })

describe('upstream', () => {
  test('any answer will do, one of 404 too', async () => {
    using server = serving(() => new Response('', { status: 404 }))
    expect((await ward.look({ upstreamUrl: server.url.origin })).troubles).toEqual([idle])
  })

  test('refused connections', async () => {
    const origin = `http://127.0.0.1:${freePort()}`
    const look = await ward.look({ upstreamUrl: origin, cdnUrl: origin })
    expect(look.troubles).toEqual([idle, 'network/api error', 'network/cdn error'])
    expect(look.ok).toBe(false)
  })

  test('a name that does not exist', async () => {
    const look = await ward.look({ upstreamUrl: 'https://nowhere.invalid' })
    expect(look.of('network/api')).toMatchObject([
      {
        severity: 'error',
        what: expect.stringContaining('its name is not found'),
        fix: expect.stringContaining('getent hosts nowhere.invalid'),
      },
    ])
  })

  test('silence is waited for no longer than said', async () => {
    await using server = await rawServer(() => {})
    const look = await ward.look({ upstreamUrl: server.url }, { deadlineMs: 300 })
    expect(look.of('network/api')).toMatchObject([
      { severity: 'error', what: expect.stringContaining('timeout') },
    ])
  })

  test('a server in trouble is a warning', async () => {
    using server = serving(() => new Response('', { status: 502 }))
    expect((await ward.look({ upstreamUrl: server.url.origin })).of('network/api')).toMatchObject([
      { severity: 'warning', what: expect.stringContaining('status 502') },
    ])
  })

  test('a certificate that nobody vouches for', async () => {
    using server = serving(() => new Response(''), { cert: certificate, key: privateKey })
    const look = await ward.look({ upstreamUrl: server.url.origin })
    expect(look.of('network/api')).toMatchObject([
      { severity: 'error', what: expect.stringContaining('its certificate is not trusted') },
    ])
  })

  test('what speaks no HTTP', async () => {
    await using server = await rawServer(socket => socket.end('SSH-2.0-OpenSSH_9.6\r\n'))
    const look = await ward.look({ upstreamUrl: server.url }, { deadlineMs: 1000 })
    expect(look.of('network/api')).toMatchObject([{ severity: 'error' }])
  })
})

test('which proxy serves an address', () => {
  const https = new URL('https://api.example.org/x')
  const of = (env: Record<string, string>, url = https) => proxyFor(url, env)?.host
  expect(of({})).toBeUndefined()
  expect(of({ HTTPS_PROXY: 'http://user:word@proxy:3128' })).toBe('proxy:3128')
  expect(of({ https_proxy: 'proxy:1', HTTPS_PROXY: 'http://other:2' })).toBe('proxy:1')
  expect(of({ HTTP_PROXY: 'http://proxy:1' })).toBeUndefined()
  expect(of({ ALL_PROXY: 'http://proxy:1' })).toBe('proxy:1')
  for (const spared of ['*', 'api.example.org', 'example.org', 'a.b, .example.org']) {
    expect(of({ HTTPS_PROXY: 'http://proxy:1', NO_PROXY: spared })).toBeUndefined()
  }
  expect(of({ HTTPS_PROXY: 'http://proxy:1', NO_PROXY: 'ample.org' })).toBe('proxy:1')
})

describe('a sandbox', () => {
  test('that runs, that does not, and that does not while somebody polls it', async () => {
    const dir = folderOfTest()
    const ofIts = { basePath: dir, upstreamUrl: undefined, cdnUrl: undefined }
    const options = { dir: join(dir, 'sandbox'), clock: systemClock, log: silentLog }
    const sandbox = await startSandbox({ ...options, host: '127.0.0.1', port: 0 })
    const running = await ward.look(ofIts)
    expect(running.of('network/sandbox')).toMatchObject([
      { severity: 'ok', what: expect.stringContaining(`${sandbox.url}/phone`) },
    ])
    {
      await using _gateway = await withGateway({ dir, sessions: [] })
      await sandbox.stop()
      expect((await ward.look(ofIts)).of('network/sandbox')).toMatchObject([
        {
          severity: 'error',
          what: 'the sandbox does not run, and a process polls it',
          fix: `svc sandbox -d ${dir}`,
        },
      ])
    }
    const before = stateOf(dir)
    expect((await ward.look(ofIts)).troubles).toEqual([
      'locks/poller note',
      'sessions/sessions note',
      'network/sandbox note',
    ])
    expect(stateOf(dir)).toEqual(before)
  })
})
