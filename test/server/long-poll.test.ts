import { describe, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import type { Principal } from '../../src/model/principal.ts'
import { type Rest, startRest } from '../support/rest.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

const request = (input: unknown) => {
  const body = JSON.stringify(input)
  return `POST /tools/default/recv HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

async function opened(rest: Rest): Promise<Socket> {
  const socket = connect(rest.server.port, '127.0.0.1')
  socket.on('error', () => {})
  await new Promise<void>(resolve => socket.once('connect', () => resolve()))
  return socket
}

/** Waits until an answer was written, or was not. */
const settled = (rest: Rest, count = 1) =>
  until('it is settled', 30_000, () => rest.gateway.settled.length >= count)

describe('the position of a reader', () => {
  test('moves when the answer was written', async () => {
    await using rest = await startRest()
    rest.gateway.say('one')
    rest.gateway.say('two')
    const { status, body } = await rest.call('recv', { timeout: 0 })
    expect(status).toBe(200)
    expect(body.map((message: { text: string }) => message.text)).toEqual(['one', 'two'])
    await settled(rest)
    expect(rest.gateway.settled).toEqual([true])
    expect((await rest.call('recv', { timeout: 0 })).body).toEqual([])
  })

  test('moves once per answer, however fast the caller asks again', async () => {
    await using rest = await startRest()
    for (let i = 0; i < 50; i++) {
      rest.gateway.say(`message ${i}`)
      await rest.call('recv', { timeout: 0 })
    }
    await settled(rest, 50)
    expect(rest.gateway.settled).toEqual(Array(50).fill(true))
  })

  test('stays when the caller hangs up during the long poll; the next one gets the message', async () => {
    await using rest = await startRest()
    const socket = await opened(rest)
    const asked = rest.gateway.nextCall
    socket.write(request({ timeout: 60 }))
    await asked
    socket.destroy()
    // The door hears of it through the request's signal; a message that comes then must not be given to nobody.
    const gone = rest.gateway.signals.at(-1)
    await until('it is heard', 30_000, () => gone?.aborted)
    rest.gateway.say('kept')
    expect((await rest.call('recv', { timeout: 5 })).body[0].text).toBe('kept')
    await settled(rest)
    expect(rest.gateway.settled).toEqual([true])
  })

  test('stays when the caller vanishes while a big answer is written', async () => {
    await using rest = await startRest()
    // 64 MB do not fit into any socket buffer, so most of it is still with us when the reader dies.
    const text = 'x'.repeat(1_000_000)
    for (let i = 0; i < 64; i++) rest.gateway.say(text)
    const socket = await opened(rest)
    socket.once('data', () => {
      socket.pause()
      socket.resetAndDestroy()
    })
    socket.write(request({ timeout: 0 }))
    await settled(rest)
    expect(rest.gateway.settled).toEqual([false])
    expect(rest.gateway.position.get('default')).toBeUndefined()
    const { body } = await rest.call('recv', { timeout: 0, limit: 3 })
    expect(body.map((message: { id: number }) => message.id)).toEqual([1, 2, 3])
  })

  test('stays while a slow caller has not taken the answer, and moves when it has', async () => {
    await using rest = await startRest()
    const text = 'x'.repeat(1_000_000)
    for (let i = 0; i < 64; i++) rest.gateway.say(text)
    const socket = await opened(rest)
    const first = Promise.withResolvers<void>()
    socket.once('data', () => {
      socket.pause()
      first.resolve()
    })
    socket.write(request({ timeout: 0 }))
    await first.promise
    for (let i = 0; i < 50; i++) await new Promise(resolve => setImmediate(resolve))
    expect(rest.gateway.settled).toEqual([])
    let came = 0
    socket.on('data', (chunk: Buffer) => {
      came += chunk.length
    })
    socket.resume()
    await settled(rest)
    expect(rest.gateway.settled).toEqual([true])
    await until('all of it came', 30_000, () => came > 64 * text.length)
    socket.destroy()
  })

  test('stays when the tool fails after it claimed messages', async () => {
    await using rest = await startRest()
    rest.gateway.say('one')
    rest.gateway.failAfterClaim = true
    expect((await rest.call('recv', { timeout: 0 })).status).toBe(500)
    expect(rest.gateway.settled).toEqual([false])
  })
})

describe.concurrent('waiting', () => {
  test('a message that arrives during the wait is answered at once', async () => {
    await using rest = await startRest()
    const asked = rest.gateway.nextCall
    const answer = rest.call('recv', { timeout: 60 })
    await asked
    rest.gateway.say('hello')
    expect((await answer).body[0].text).toBe('hello')
  })

  test('stopping ends every wait with its normal answer and refuses new calls', async () => {
    await using rest = await startRest()
    const answers = Array.from({ length: 5 }, () => rest.call('recv', { timeout: 300 }))
    await until('all five wait', 30_000, () => rest.gateway.signals.length === 5)
    rest.app.beginShutdown()
    for (const answer of await Promise.all(answers)) expect(answer).toEqual({ status: 200, body: [] })
    const refused = await rest.call('sessions')
    expect([refused.status, refused.body.code]).toEqual([503, 'shutting_down'])
    expect((await fetch(`${rest.url}/healthz`)).status).toBe(200)
    using watch = stopwatch()
    await rest.server.stop(3000)
    expect(watch.ms).toBeLessThan(2500)
  })

  test('a wait leaves nothing behind', async () => {
    await using rest = await startRest()
    for (let i = 0; i < 20; i++) await rest.call('recv', { timeout: 0 })
    rest.app.beginShutdown()
    expect(rest.gateway.signals.length).toBe(20)
    expect(rest.gateway.signals.every(signal => !signal.aborted)).toBe(true)
  })
})

test('behind a proxy, which ends a silent request, a call waits for 45 seconds at most', async () => {
  await using rest = await startRest()
  const headers = { 'content-type': 'application/json', 'x-forwarded-for': '192.0.2.1' }
  let calls = 0
  for (const [timeout, waits] of [
    [300, 45],
    [46, 45],
    [45, 45],
    [1, 1],
  ]) {
    const call = new AbortController()
    const answer = rest.call('recv', { timeout }, { headers, signal: call.signal }).catch(() => {})
    const asked = () => rest.gateway.asked.filter(({ verb }) => verb === 'recv')
    await until('it waits', 30_000, () => asked().length > calls)
    calls = asked().length
    expect(asked().at(-1)).toMatchObject({ request: { timeout: waits } })
    call.abort()
    await answer
  }
  const logins: unknown[] = []
  Object.assign(rest.gateway.logins, {
    async login(_by: Principal, request: { timeout: number }) {
      logins.push(request.timeout)
      return { status: 'waiting', session: 'default', message: '' }
    },
  })
  await rest.call('login', { timeout: 300 }, { headers })
  await rest.call('login', { timeout: 300 })
  expect(logins).toEqual([45, 300])
})
