/** Requests to addresses that somebody named go through the proxy of the environment, like all others. */
import { afterEach, expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { fetchChecked, fetchPublic } from '../../src/platform/fetch.ts'
import { Poster } from '../../src/platform/post.ts'
import { failure } from '../support/failure.ts'
import { rawServer } from '../support/servers.ts'

const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY']
const all = [...names, ...names.map(name => name.toLowerCase())]
const kept = new Map(all.map(name => [name, process.env[name]]))
const clear = () => {
  for (const name of all) delete process.env[name]
}
afterEach(() => {
  clear()
  for (const [name, value] of kept) if (value !== undefined) process.env[name] = value
})

/** A proxy that answers everything itself, and keeps the first lines and bodies of what it was asked. */
async function proxy(name: string, answer = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy') {
  const asked: string[] = []
  const whole: string[] = []
  const server = await rawServer((socket: Socket, request) => {
    asked.push(request.split('\r\n')[0]!)
    whole.push(request)
    const length = Number(/content-length: (\d+)/i.exec(request)?.[1] ?? 0)
    const isWhole = () => whole.join('').split('\r\n\r\n').slice(1).join('').length >= length
    if (isWhole()) socket.write(answer)
    socket.on('data', more => {
      whole.push(more.toString('latin1'))
      if (isWhole()) socket.write(answer)
    })
  })
  clear()
  process.env[name] = server.url
  return Object.assign(server, { asked, said: () => whole.join('') })
}

const limits = { maxBytes: 1000, timeoutMs: 10_000 }
const never = new AbortController().signal
const read = async (url: string) => new Response((await fetchPublic(url, limits)).body).text()

/** Each way to an address that somebody named; the text or status of what answers. */
const ways: readonly [way: string, (url: string) => Promise<string>][] = [
  ['media by URL', read],
  ['an address of WeChat', async url => (await fetchChecked(url, { method: 'GET' })).text()],
  [
    'a webhook',
    async url => {
      const poster = new Poster(url, { allowPrivate: false, timeoutMs: 10_000 })
      const { text } = await poster.post({}, '{}', never, 100).finally(() => poster.close())
      return text!
    },
  ],
]

test.each(ways)('%s: a name is asked for at the proxy, which looks it up', async (_way, ask) => {
  await using server = await proxy('http_proxy')
  expect(await ask('http://nowhere.invalid/x?y=1')).toBe('proxy')
  expect(server.asked).toHaveLength(1)
  expect(server.asked[0]).toMatch(/^(GET|POST) http:\/\/nowhere\.invalid\/x\?y=1 HTTP\/1\.1$/)
})

test.each(ways)('%s: over TLS the proxy is asked for a tunnel', async (_way, ask) => {
  await using server = await proxy('HTTPS_PROXY', 'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n')
  await ask('https://nowhere.invalid/').catch(() => {})
  expect(server.asked[0]).toBe('CONNECT nowhere.invalid:443 HTTP/1.1')
})

test.each(ways)('%s: what is written as an address is judged all the same', async (_way, ask) => {
  await using server = await proxy('HTTP_PROXY')
  for (const host of ['127.0.0.1', '10.0.0.1', '[::1]', '169.254.169.254', '2130706433', '[::ffff:10.0.0.1]'])
    expect(await failure(ask(`http://${host}/`))).toMatchObject({ code: 'forbidden' })
  expect(server.asked).toEqual([])
})

test.each(ways)('%s: what NO_PROXY names goes its own way and is judged', async (_way, ask) => {
  await using server = await proxy('http_proxy')
  process.env.NO_PROXY = 'localhost'
  expect(await failure(ask('http://localhost/'))).toMatchObject({ code: 'forbidden' })
  expect(server.asked).toEqual([])
})

test.each([
  'localhost',
  'LOCALHOST',
  'localhost.',
  '*.localhost',
  '.localhost',
  'xx localhost',
  'a.example, localhost:80',
  '*',
])('what a runtime may take for spared by NO_PROXY=%s is judged', async spared => {
  await using server = await proxy('http_proxy')
  process.env.NO_PROXY = spared
  for (const [_way, ask] of ways)
    expect(await failure(ask('http://localhost/'))).toMatchObject({ code: 'forbidden' })
  process.env.no_proxy = ''
  for (const [_way, ask] of ways)
    expect(await failure(ask('http://localhost/'))).toMatchObject({ code: 'forbidden' })
  expect(server.asked).toEqual([])
})

test('nothing but http and https is asked for, proxy or not', async () => {
  await using server = await proxy('http_proxy')
  for (const url of ['file:///etc/hostname', 'data:,x', 'ftp://nowhere.invalid/'])
    expect(await failure(fetchChecked(url, { method: 'GET' }))).toMatchObject({ code: 'ERR_INVALID_URL' })
  expect(server.asked).toEqual([])
})

test('a redirect that comes through the proxy is judged again', async () => {
  const head = 'HTTP/1.1 302 Found\r\nContent-Length: 0\r\n'
  await using server = await proxy('http_proxy', `${head}Location: http://127.0.0.1:1/\r\n\r\n`)
  expect(await failure(read('http://nowhere.invalid/'))).toMatchObject({ code: 'forbidden' })
  expect(server.asked).toHaveLength(1)
})

test('a body goes through whole, with its length', async () => {
  await using server = await proxy('http_proxy')
  async function* body() {
    for (const part of ['one ', 'two ', 'three']) yield Buffer.from(part)
  }
  const headers = { 'content-length': '13' }
  await fetchChecked('http://nowhere.invalid/', { method: 'PUT', headers, body: body() })
  expect(server.said()).toMatch(/content-length: 13\r\n/i)
  expect(server.said()).toEndWith('\r\n\r\none two three')
})
