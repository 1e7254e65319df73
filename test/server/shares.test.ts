/**
 * Every bound that all callers share (`src/model/shares.ts`): a greedy key, and a caller without one, take all that they get,
 * and leave a third caller undisturbed.
 */
import { expect, test } from 'bun:test'
import { checkCapacity } from '../../src/accounts/login-room.ts'
import { viewFor } from '../../src/gateway/scoped.ts'
import { QuestionTickets } from '../../src/mcp/questions.ts'
import { createDirectCall } from '../../src/model/call.ts'
import type { SvcError } from '../../src/model/error.ts'
import { anyCaller, owner, type Principal } from '../../src/model/principal.ts'
import { shares } from '../../src/model/shares.ts'
import { exportMessages } from '../../src/operations/export.ts'
import { createFilesLimit, readBodyBytes, releaseBody } from '../../src/server/body.ts'
import { noteCaller } from '../../src/server/caller.ts'
import { Backlogs } from '../../src/server/event-stream.ts'
import { codeOf, failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'
import { startDoor } from '../support/mcp-door.ts'
import { initialize } from '../support/mcp-raw.ts'

const mb = 1024 * 1024
const keyCaller = (id: string): Principal => ({ kind: 'key', id, grant: { rights: [] } })
const [greedy, third] = [keyCaller('greedy00'), keyCaller('third000')]

/** A request of a caller, and of an address. */
function requestOf(by: Principal, body: BodyInit, address = '192.0.2.1') {
  const request = new Request('http://localhost/', { method: 'POST', body, duplex: 'half' } as RequestInit)
  noteCaller(request, by, { remoteAddress: address, accept() {} })
  return request
}

/** Reads bodies of `bytes` of a caller, until one is refused. @returns how many were read; `end` releases them */
async function readAll(by: Principal, bytes: number, address?: string) {
  const read: Request[] = []
  const body = new Uint8Array(bytes)
  for (;;) {
    const request = requestOf(by, new Blob([body]).stream(), address)
    const error = await readBodyBytes(request, createFilesLimit(bytes)).then(
      () => undefined,
      error => error,
    )
    if (error) {
      releaseBody(request)
      expect(error).toMatchObject({ code: 'rate_limited' })
      return { count: read.length, end: () => read.forEach(releaseBody) }
    }
    read.push(request)
  }
}

/** Begins bodies that stand still after some bytes. */
function openSlowBodies() {
  const open = new Set<{ readonly out: ReadableStreamDefaultController; readonly read: Promise<unknown> }>()
  return {
    open,
    /** @returns the error of one that is refused */
    async begin(by: Principal, address: string, bytes = 1): Promise<unknown> {
      const { promise, resolve } = Promise.withResolvers<ReadableStreamDefaultController>()
      const body = new ReadableStream({
        start(out) {
          out.enqueue(new Uint8Array(bytes))
          resolve(out)
        },
      })
      const request = requestOf(by, body, address)
      const read = readBodyBytes(request, createFilesLimit(mb)).catch(error => error)
      const one = { out: await promise, read }
      open.add(one)
      void read.finally(() => {
        releaseBody(request)
        open.delete(one)
      })
      return Promise.race([read, Bun.sleep(0)])
    },
    async end() {
      const all = [...open]
      for (const { out } of all) out.close()
      await Promise.all(all.map(({ read }) => read))
    },
  }
}

/** Calls until it is refused. */
async function callUntilRefused(call: (nth: number) => Promise<unknown>, most: number) {
  for (let nth = 0; nth <= most; nth++) {
    const error = await call(nth).then(
      () => undefined,
      (error: SvcError) => error,
    )
    if (error) return { count: nth, code: error.code }
  }
  throw new Error('never refused')
}

/** A gateway with two keys, and its store. */
async function withKeys() {
  const t = await withGateway({ start: false })
  const add = async (name: string) => {
    const { key } = await t.gateway.keys.add({ name, can: ['all'] }, owner)
    return (await t.gateway.keys.authenticate(key))!
  }
  return { ...t, greedy: await add('greedy'), second: await add('second'), third: await add('third') }
}

/** @param isLarge so many fit that a second greedy key leaves something, too */
const refuse =
  (
    call: (by: Principal, nth: number) => Promise<unknown>,
    { each, most }: { most: number; each: number },
    isLarge = true,
  ) =>
  async (t: Awaited<ReturnType<typeof withKeys>>) => {
    const { count } = await callUntilRefused(nth => call(t.greedy, nth), most)
    expect(count).toBe(each)
    if (isLarge) await callUntilRefused(nth => call(t.second, most + nth), most)
    await call(t.third, 3 * most)
    await call(owner, 3 * most + 1)
  }

/** A key that makes keys opens what it can with two of them. @param transport of MCP */
async function attackDoor(transport: 'http' | 'sse', { each }: { each: number }) {
  await using door = await startDoor({ transport })
  const limits = { open: 2 * each }
  const { keys } = door.gateway
  const add = async (name: string, by: Principal) =>
    (await keys.add({ name, can: ['history', 'keys'], limits }, by)).key
  const top = (await keys.authenticate(await add('top', owner)))!
  const below = [await add('first', top), await add('second', top)]
  const body = JSON.stringify(initialize())
  const init = transport === 'sse' ? {} : { method: 'POST', body }
  const ask = (key: string) =>
    door.door.fetch(
      new Request(door.url, {
        ...init,
        headers: {
          host: 'localhost',
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
      }),
      { remoteAddress: '127.0.0.1', accept() {} },
    )
  const opened: Response[] = []
  for (let nth = 0; nth < each; nth++) opened.push(await ask(below[nth % 2]!))
  expect(opened.filter(({ ok }) => !ok)).toEqual([])
  for (const key of below) expect((await ask(key)).status).toBe(503)
  opened.push(await ask(await add('other', owner)))
  expect(opened.at(-1)!.status).toBe(200)
  for (const { body, ok } of opened) if (ok) await body?.cancel()
}

/** Two keys of one maker say all that they can to a topic, each text so long. @returns how many are kept */
async function attackTopic(length: number) {
  await using t = await withKeys()
  const { keys, topics } = t.gateway
  await topics.add(owner, { name: 'home', to: [t.bots.get('default')!.user_id] })
  const below = async (name: string) => {
    const { key } = await keys.add({ name, can: ['notify'], topics: ['home'] }, t.greedy)
    return (await keys.authenticate(key))!
  }
  let said = 0
  const say = async (by: Principal, count: number) => {
    const texts = Array.from({ length: count }, () => `${++said} `.padEnd(length, 'x'))
    const notices = texts.map(text => ({ text, priority: 'default' as const }))
    return (await topics.accept(createDirectCall({ by }), 'home', notices)).filter(({ id }) => id !== '0')
  }
  const all = [await below('one'), await below('two'), t.greedy]
  let kept = 0
  for (let nth = 0, more = 1; more > 0; nth++) {
    more = (await say(all[nth % 2]!, 1000)).length
    kept += more
  }
  for (const by of [...all, { ...t.greedy, kind: 'panel' } as const]) expect(await say(by, 1)).toEqual([])
  expect(await say(t.third, 1)).toHaveLength(1)
  expect(await say(owner, 1)).toHaveLength(1)
  return kept
}

const attacks: Record<keyof typeof shares, () => Promise<void>> = {
  async bodies() {
    const taken = [await readAll(greedy, 4 * mb), await readAll(anyCaller, mb)]
    const left = await readAll(third, 20 * mb)
    for (const { end } of [...taken, left]) end()
    expect(taken.map(({ count }) => count)).toEqual([12, 4])
    expect(left.count).toBeGreaterThan(0)
    // What was given back is there again, all of it for the owner.
    const { count, end } = await readAll(owner, 24 * mb)
    end()
    expect(count).toBe(4)
  },
  async unprovenBytes() {
    const taken = [await readAll(anyCaller, mb / 2, '192.0.2.1'), await readAll(greedy, 20 * mb)]
    const others = [await readAll(anyCaller, mb, '192.0.2.2'), await readAll(third, 20 * mb)]
    for (const { end } of [...taken, ...others]) end()
    expect(taken[0]!.count).toBe(shares.unprovenBytes.each / (mb / 2))
    for (const { count } of others) expect(count).toBeGreaterThan(0)
    // What stands still ends for a network that has less.
    const slow = openSlowBodies()
    for (let nth = 0; nth < 40; nth++) await slow.begin(anyCaller, `192.0.2.${nth % 8}`, mb / 2)
    const newcomer = await readAll(anyCaller, mb, '198.51.100.1')
    newcomer.end()
    await slow.end()
    expect(newcomer.count).toBeGreaterThan(0)
  },
  async unprovenBodies() {
    const slow = openSlowBodies()
    const { each, most } = shares.unprovenBodies
    for (let nth = 0; nth < each; nth++) expect(await slow.begin(anyCaller, '2001:db8::1')).toBeUndefined()
    expect(await slow.begin(anyCaller, '2001:db8::2')).toMatchObject({ code: 'rate_limited' })
    expect(await slow.begin(anyCaller, '192.0.2.2')).toBeUndefined()
    expect(await slow.begin(third, '2001:db8::1')).toBeUndefined()
    // However many networks take all, another one has a place: one of those that have more loses one.
    for (let nth = 0; nth < most; nth++) await slow.begin(anyCaller, `192.0.2.${nth % 16}`)
    for (let nth = 0; nth < 3; nth++) expect(await slow.begin(anyCaller, `198.51.100.${nth}`)).toBeUndefined()
    expect(slow.open.size).toBeLessThanOrEqual(most + 1)
    await slow.end()
    expect(await slow.begin(anyCaller, '2001:db8::2')).toBeUndefined()
    await slow.end()
  },
  async uploads() {
    await using t = await withKeys()
    const accept = (by: Principal) =>
      viewFor(t.gateway, by).media.accept(
        { body: new Blob(['x']).stream(), size: 1 },
        new AbortController().signal,
      )
    await refuse(accept, shares.uploads)(t)
  },
  async codes() {
    const { each, most } = shares.codes
    const check = (own: number) => async () =>
      checkCapacity({ all: each, own }, 'work', [], { pending: most, sessions: most })
    expect(await codeOf(Promise.resolve().then(check(each)))).toBe('rate_limited')
    await check(0)()
  },
  async waiting() {
    await using t = await withKeys()
    const send = (by: Principal, nth: number) => t.send({ text: `${nth}`, when_closed: 'queue' }, { by })
    await refuse(send, shares.waiting)(t)
  },
  async heldBack() {
    await using t = await withKeys()
    const send_at = t.clock.now() + 60 * 60_000
    const send = (by: Principal, nth: number) =>
      t.send({ text: `${nth}`, when_closed: 'queue', send_at }, { by })
    await refuse(send, shares.heldBack)(t)
  },
  async notices() {
    expect(await attackTopic(10)).toBe(shares.notices.each)
  },
  async noticeBytes() {
    const bytes = (await attackTopic(10_000)) * 10_000
    expect(bytes).toBeLessThan(shares.noticeBytes.each)
    expect(bytes).toBeGreaterThan(shares.noticeBytes.each * 0.9)
  },
  async webhooks() {
    await using t = await withKeys()
    const endpoint = { url: 'http://127.0.0.1:9/', allow_private: true }
    await refuse(by => viewFor(t.gateway, by).webhooks.add(by, endpoint), shares.webhooks)(t)
  },
  async webhookHeaders() {
    await using t = await withKeys()
    const below = async (name: string) =>
      (await t.gateway.keys.authenticate((await t.gateway.keys.add({ name, can: ['all'] }, t.greedy)).key))!
    const all = [await below('one'), await below('two')]
    const length = 16 * 1024
    const add = (by: Principal, value = 'x'.repeat(length - 1)) =>
      viewFor(t.gateway, by).webhooks.add(by, {
        url: 'http://127.0.0.1:9/',
        allow_private: true,
        ...(value && { headers: { a: value } }),
      })
    const { each, most } = shares.webhookHeaders
    const { count } = await callUntilRefused(nth => add(all[nth % 2]!), most)
    expect(count * length).toBe(each)
    for (const by of [...all, t.greedy]) expect(await codeOf(add(by))).toBe('invalid_arguments')
    await add(t.greedy, '')
    await callUntilRefused(() => add(t.second), most)
    await add(t.greedy, '')
    await add(t.third)
    // What ended keys left takes nothing from others.
    await t.gateway.keys.revoke(t.greedy.id!, owner)
    expect((await callUntilRefused(() => add(owner), most)).count * length).toBe(each + 7 * length)
  },
  async topics() {
    await using t = await withKeys()
    const to = t.bots.get('default')!.user_id
    const add = (by: Principal, nth: number) => t.gateway.topics.add(by, { name: `t${nth}`, to: [to] })
    await refuse(add, shares.topics)(t)
  },
  async invitations() {
    await using t = await withKeys()
    const add = (by: Principal, nth: number) => t.gateway.invitations.add(by, { name: `i${nth}` } as never)
    await refuse(add, shares.invitations)(t)
  },
  async exports() {
    await using t = await withKeys()
    const open: ReadableStreamDefaultReader[] = []
    const begin = async (by: Principal) => {
      const call = { by, signal: new AbortController().signal }
      const { stream } = (await exportMessages.run(t.gateway, { format: 'html' }, call as never)) as {
        stream: ReadableStream
      }
      open.push(stream.getReader())
      // It counts from its first block on.
      await open.at(-1)!.read()
    }
    await refuse(
      begin,
      shares.exports,
      false,
    )(t).finally(() => Promise.all(open.map(reader => reader.cancel())))
  },
  mcpSessions: () => attackDoor('http', shares.mcpSessions),
  mcpStreams: () => attackDoor('sse', shares.mcpStreams),
  async mcpQuestions() {
    const tickets = new QuestionTickets()
    const own = tickets.createTicket('mine', third)
    for (let nth = 0; nth < 2 * shares.mcpQuestions.most; nth++) tickets.createTicket('x', greedy)
    for (let nth = 0; nth < shares.mcpQuestions.each - 1; nth++) tickets.createTicket('x', '192.0.2.1')
    expect(tickets.useTicket(own, 'mine')).toBe(true)
  },
  async unread() {
    const cut: string[] = []
    const all = new Backlogs(shares.unread.most)
    const [slow, reading] = ['slow', 'reading'].map(name => all.open(() => cut.push(name)))
    for (let mbs = 1; mbs < 100; mbs++) {
      slow!.update(mbs * mb, false)
      reading!.update(mb, true)
    }
    expect(cut).toEqual(['slow'])
  },
}

for (const [bound, attack] of Object.entries(attacks)) test(bound, attack)

test('an endless or slow body of a caller who has proved nothing ends soon', async () => {
  const body = new ReadableStream({ start: out => out.enqueue(new Uint8Array(10)) })
  const begun = performance.now()
  expect(await failure(readBodyBytes(requestOf(anyCaller, body), createFilesLimit(mb)))).toMatchObject({
    code: 'invalid_arguments',
  })
  expect(performance.now() - begun).toBeLessThan(30_000)
})
