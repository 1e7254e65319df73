/** Addresses that WeChat names in its answers: those that it is configured with are taken, all others are judged first. */
import { expect, test } from 'bun:test'
import { readConfig } from '../../src/config.ts'
import { connect, openRuntime } from '../../src/gateway/foundations.ts'
import { encryptStream, paddedSizeOf } from '../../src/ilink/crypto.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { httpServer, json } from '../support/servers.ts'

const key = Buffer.from('0123456789abcdef')
const plain = Buffer.alloc(5000, 'a picture')
const cipher = async () => Buffer.concat(await Array.fromAsync(encryptStream([plain], key)))

/** WeChat and its CDN by `answer`, and a server of this machine that must hear nothing. */
async function between(answer: (request: Request, inside: string) => Response | Promise<Response>) {
  const heard: string[] = []
  const inside = httpServer(request => {
    heard.push(`${request.method} ${request.url}`)
    return json({ ret: 0, secret: 'of this machine' })
  })
  const wechat = httpServer(request => answer(request, inside.url))
  const options = {
    config: {
      ...readConfig({ 'base-path': folderOfTest() }, {}),
      upstreamUrl: wechat.url,
      cdnUrl: `${wechat.url}/c2c`,
    },
    log: silentLog,
    version: '0.0.0',
  }
  const upstream = connect(options, openRuntime(options, new AbortController().signal))
  return {
    upstream,
    heard,
    inside: inside.url,
    wechat: wechat.url,
    download: (full_url?: string) =>
      upstream.cdn.download(
        {
          kind: 'file',
          size: plain.length,
          info: { encrypt_query_param: 'p', aes_key: key.toString('base64'), full_url },
        },
        { cdnUrl: upstream.cdnUrl },
      ),
    upload: (url: string) =>
      upstream.cdn.upload({
        url,
        cdnUrl: upstream.cdnUrl,
        filekey: 'f',
        cipherSize: paddedSizeOf(plain.length),
        body: () => encryptStream([plain], key),
      }),
    async [Symbol.asyncDispose]() {
      await inside[Symbol.asyncDispose]()
      await wechat[Symbol.asyncDispose]()
    },
  }
}

const redirect = (status: number, location: string) => new Response(null, { status, headers: { location } })
const port = (url: string) => new URL(url).port

test.each([301, 302, 303, 307, 308])('a CDN that redirects to this machine with %d', async status => {
  const targets = (url: string) => [
    url,
    `http://localhost:${port(url)}/`,
    `http://[::1]:${port(url)}/`,
    `http://2130706433:${port(url)}/`,
    `//127.0.0.1:${port(url)}/x`,
    'http://169.254.169.254/latest/meta-data/',
  ]
  let target = ''
  await using t = await between(() => redirect(status, target))
  for (target of targets(t.inside)) expect(await failure(t.download())).toMatchObject({ code: 'forbidden' })
  for (target of targets(t.inside)) {
    const error = await failure(t.upload(`${t.wechat}/up`))
    expect(error).toMatchObject({ code: 'upstream_error' })
  }
  expect(t.heard).toEqual([])
})

test('a redirect within what is configured is followed, and one from there to this machine is not', async () => {
  await using t = await between(async (request, inside) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/c2c/download') return redirect(302, '/next')
    return pathname === '/next' ? new Response(await cipher()) : redirect(302, inside)
  })
  expect(await new Response((await t.download()).stream).bytes()).toEqual(new Uint8Array(plain))
  expect(await failure(t.download(`${t.wechat}/other`))).toMatchObject({ code: 'forbidden' })
  expect(t.heard).toEqual([])
})

test('an address of media that names this machine is neither read nor written', async () => {
  await using t = await between(() => json({}))
  expect(await failure(t.download(`${t.inside}/x`))).toMatchObject({ code: 'forbidden' })
  expect(await failure(t.upload(`${t.inside}/x`))).toMatchObject({ code: 'forbidden' })
  expect(t.heard).toEqual([])
})

test('an account is not asked for at an address of this machine that a login named', async () => {
  await using t = await between((_request, inside) => redirect(302, `${inside}/qr`))
  const { api } = t.upstream
  const account = { base_url: t.inside, token: 'secret' }
  const never = new AbortController().signal
  for (const asked of [
    api.getUpdates(account, '', 1000, never),
    api.getConfig(account, 'u'),
    api.getBotQrcode(t.inside, []),
  ])
    expect(await failure(asked)).toMatchObject({ kind: 'network', facts: { neverSent: true } })
  // What WeChat itself redirects goes nowhere either, token or not.
  expect(await failure(api.getBotQrcode(t.wechat, []))).toMatchObject({ kind: 'http' })
  expect((await api.getQrcodeStatus(t.wechat, 'q')).error).toMatchObject({ kind: 'http' })
  expect(t.heard).toEqual([])
})
