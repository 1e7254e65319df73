/** `--confirm-send`: what the person is shown, and that a yes is good for one message, once. */
import { describe, expect, test } from 'bun:test'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { QuestionTickets } from '../../src/mcp/questions.ts'
import { svc } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { connectHttp, logInOver, type McpClient, mcpHere, startMcp, upstreamFlags } from '../support/mcp.ts'
import { initialize, modernHeaders, modernMeta, post } from '../support/mcp-raw.ts'
import { restOf } from '../support/rest.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { storeVariablesOf } from '../support/shared-store.ts'
import { until } from '../support/until.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely by the tests
type Json = any

const yes = { inputResponses: { send: { action: 'accept', content: { send: true } } } }
const no = { inputResponses: { send: { action: 'decline' } } }

/** A service that asks first, with an account to which two people have written. */
async function withAccount() {
  const service = await mcpHere('http', { sessions: ['default'], config: { confirmSend: true } })
  const { sandbox, bots } = service.t
  const other = await sandbox.addUser()
  await sandbox.say('hello')
  await sandbox.say('I too', { from: other })
  await service.t.receive(2)
  const to = bots.get('default')!.user_id
  return {
    ...{ sandbox, service, other, outgoing: { to, text: 'shall I?' } },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

/** Logs in and hears the first message. @returns who wrote it */
async function heard(client: McpClient, sandbox: TestSandbox): Promise<string> {
  await logInOver(client, sandbox)
  await sandbox.say('hello')
  const [message] = await client.value('recv', { timeout: 30 })
  return message.from_user
}

/** A client that does as it likes: one `tools/call` of send, with whatever stands beside its arguments. */
async function rawSend(url: string, input: object, beside: object = {}): Promise<Json> {
  const _meta = modernMeta({ elicitation: { form: {} } })
  const params = { name: 'send', arguments: input, _meta, ...beside }
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
  const response = await post(url, message, modernHeaders('send'))
  const data = /^data: (.+)$/m.exec(await response.text())![1]!
  const answer = JSON.parse(data)
  if (!answer.result) throw new Error(data)
  return answer.result
}

const codeOf = (result: Json) => result._meta['svc/problem'].code
const questionOf = (result: Json) => result.inputRequests.send.params.message

test('a client that takes only JSON cannot be asked: its send waits for approval, and the next call finds it sent', async () => {
  await using site = await withAccount()
  const { service, outgoing, sandbox } = site
  const accept = 'application/json'
  const hello = initialize()
  const params = { ...hello.params, capabilities: { elicitation: {} } }
  const opened = await post(service.url, { ...hello, params }, { accept })
  await opened.text()
  const session = { accept, 'mcp-session-id': opened.headers.get('mcp-session-id')! }
  const send = async () => {
    const given = { name: 'send', arguments: { ...outgoing, idempotency_key: 'once' } }
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: given }
    return (await (await post(service.url, message, session)).json()).result.structuredContent
  }
  const first = await send()
  expect(first).toMatchObject({ status: 'queued', waits_for: 'approval' })
  await using rest = await restOf(service.t.gateway)
  const approved = await fetch(`${rest.url}/outbox/${first.outbox_id}/approve`, { method: 'POST' })
  expect(approved.status).toBe(200)
  expect(await send()).toMatchObject({ status: 'accepted', repeated: true })
  expect(await sandbox.messages({ from: 'bot' })).toHaveLength(1)
})

test('a client that listens to nothing but the answer to its call is asked there', async () => {
  await using site = await withAccount()
  const { service, outgoing } = site
  const hello = initialize()
  const opened = await post(service.url, {
    ...{ ...hello, params: { ...hello.params, capabilities: { elicitation: {} } } },
  })
  await opened.text()
  const session = { 'mcp-session-id': opened.headers.get('mcp-session-id')! }
  await post(service.url, { jsonrpc: '2.0', method: 'notifications/initialized' }, session)
  const params = { name: 'send', arguments: outgoing }
  const called = await post(service.url, { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, session)
  let said = ''
  const listener = new WritableStream({
    write(piece: string) {
      said += piece
    },
  })
  const reading = called
    .body!.pipeThrough(new TextDecoderStream())
    .pipeTo(listener)
    .catch(() => {})
  await until('the question', 30_000, () => said.includes('elicitation/create'))
  await service.die()
  await reading
})

describe('a client that brings the answer along', () => {
  test('cannot use a yes for another message, nor twice, nor make one up', async () => {
    await using site = await withAccount()
    const { sandbox, service, other: somebody, outgoing } = site
    const ask = async (input: object = outgoing) => {
      const asked = await rawSend(service.url, input)
      expect(asked.resultType).toBe('input_required')
      return { requestState: asked.requestState as string }
    }
    // A yes to nothing that was asked.
    expect(codeOf(await rawSend(service.url, outgoing, yes))).toBe('forbidden')
    expect(codeOf(await rawSend(service.url, outgoing, { ...yes, requestState: 'made up' }))).toBe(
      'forbidden',
    )
    // To another text, another person, with something added, in another way.
    for (const other of [
      { ...outgoing, text: 'shall I' },
      { ...outgoing, to: somebody },
      { ...outgoing, session: 'default' },
      { ...outgoing, media: [{ kind: 'file', data: 'aGk=' }] },
      { ...outgoing, when_closed: 'queue' },
    ]) {
      const state = await ask()
      expect([other, codeOf(await rawSend(service.url, other, { ...yes, ...state }))]).toEqual([
        other,
        'forbidden',
      ])
      // What was tried is used up.
      expect(codeOf(await rawSend(service.url, outgoing, { ...yes, ...state }))).toBe('forbidden')
    }
    expect(await sandbox.messages({ from: 'bot' })).toEqual([])
    // To itself, whatever the order of its keys.
    const state = await ask()
    const turned = { text: outgoing.text, to: outgoing.to }
    expect((await rawSend(service.url, turned, { ...yes, ...state })).isError).toBeUndefined()
    expect(await sandbox.messages({ from: 'bot' })).toHaveLength(1)
    expect(codeOf(await rawSend(service.url, turned, { ...yes, ...state }))).toBe('forbidden')
    const refused = await ask()
    expect(codeOf(await rawSend(service.url, outgoing, { ...no, ...refused }))).toBe('forbidden')
    expect(codeOf(await rawSend(service.url, outgoing, { ...yes, ...refused }))).toBe('forbidden')
  })

  test('shows the person all that goes out, and nothing in it looks like something else', async () => {
    await using site = await withAccount()
    const { service, outgoing } = site
    const ask = async (input: object) => questionOf(await rawSend(service.url, { to: outgoing.to, ...input }))
    const folder = service.t.mediaRoot
    await mkdir(folder, { recursive: true })
    for (const name of ['passwd', 'shadow\nx']) await writeFile(join(folder, name), 'x')
    expect(
      await ask({
        ...{ text: 'one\nfile: two\u202e', file_path: join(folder, 'passwd'), file_name: 'cat.png' },
      }),
    ).toBe(
      `Send this to ${outgoing.to} on WeChat?\n> one\n> file: two\\u{202e}\nfile: ${folder}/passwd\nnamed cat.png`,
    )
    expect(
      await ask({
        ...{ session: 'default', when_closed: 'queue' },
        media: [
          { kind: 'image', path: join(folder, 'shadow\nx'), file_name: 'holiday.png' },
          { kind: 'file', data: 'aGk=' },
        ],
      }),
    ).toBe(
      `Send this to ${outgoing.to} on WeChat from session default?\nimage: ${folder}/shadow\\u{a}x, named holiday.png\nfile: given as data\nIf it cannot go out now, it goes out when they write.`,
    )
  })

  test('is asked about nothing that could not be sent anyway', async () => {
    await using site = await withAccount()
    const { service, outgoing } = site
    const refused = async (input: object) => codeOf(await rawSend(service.url, { ...outgoing, ...input }))
    expect(await refused({ text: undefined })).toBe('invalid_arguments')
    expect(await refused({ media: [{ kind: 'file' }] })).toBe('invalid_arguments')
    expect(await refused({ file_path: '/etc/hostname' })).toBe('forbidden')
    expect(await refused({ file_path: join(service.t.mediaRoot, 'none') })).toBe('invalid_arguments')
    expect(await refused({ to: 'Mum' })).toBe('invalid_arguments')
    expect(await refused({ session: 'work' })).toBe('session_not_found')
  })
})

describe('where nobody can be asked', () => {
  test('it waits for a yes, outlives its process, and a person says it on the command line or over REST', async () => {
    await using sandbox = await withSandbox()
    const args = ['--confirm-send', '--pace', 'off']
    const dir = folderOfTest()
    const shown = async () => (await sandbox.messages({ from: 'bot' })).map(({ items }) => items[0]?.text)
    let to = ''
    const waiting: Json[] = []
    {
      await using service = await startMcp('openapi', { sandbox, args, dir })
      await using mute = await connectHttp(service.url)
      to = await heard(mute, sandbox)
      for (const text of ['first', 'second', 'third'])
        waiting.push(await mute.value('send', { to, text, idempotency_key: text }))
      for (const result of waiting) {
        const { status, success, waits_for, outbox_id } = result
        expect([status, success, waits_for]).toEqual(['queued', false, 'approval'])
        expect(result.hint).toContain('svc approvals')
        expect(outbox_id).toMatch(/^\d+$/)
      }
      expect(waiting.map(({ answer }) => answer)).toEqual(['nobody', 'nobody', 'nobody'])
      await using closed = await connectHttp(service.url, { answer: () => ({ action: 'cancel' }) })
      const unanswered = await closed.value('send', { to, text: 'closed' })
      expect(unanswered).toMatchObject({ status: 'queued', waits_for: 'approval', answer: 'cancelled' })
      const fails = () => {
        throw new Error('no screen')
      }
      await using broken = await connectHttp(service.url, { answer: fails })
      const failed = await broken.value('send', { to, text: 'failed' })
      expect(failed).toMatchObject({ status: 'queued', waits_for: 'approval', answer: 'nobody' })
      for (const { outbox_id } of [unanswered, failed])
        await fetch(new URL(`/outbox/${outbox_id}`, service.url), { method: 'DELETE' })
      // Who reads text alone is told the same.
      const { content } = await mute.call('send', { to, text: 'first', idempotency_key: 'first' })
      expect(JSON.parse(content[0].text)).toMatchObject({
        outbox_id: waiting[0].outbox_id,
        hint: expect.any(String),
      })
      // What cannot wait is refused.
      const typing = await mute.call('send', { to, typing: true })
      expect(typing._meta['svc/problem']).toMatchObject({ code: 'forbidden', details: { answer: 'nobody' } })
      const nothing = await closed.call('send', { to })
      expect(nothing._meta['svc/problem']).toMatchObject({ code: 'invalid_arguments' })
      const unseen = await closed.call('send', { to, typing: true })
      expect(unseen._meta['svc/problem']).toMatchObject({
        code: 'forbidden',
        details: { answer: 'cancelled' },
      })
      // No tool says yes.
      expect((await mute.tools()).some(({ name }) => /approv/.test(name))).toBe(false)
      // Whoever can be asked is asked.
      let questions = 0
      await using asked = await connectHttp(service.url, {
        answer: () => {
          questions++
          return { action: 'accept', content: { send: true } }
        },
      })
      const keyed = { to, text: 'asked', idempotency_key: 'asked' }
      expect(await asked.value('send', keyed)).toMatchObject({ status: 'accepted' })
      // But not about what sends nothing: a yes would change nothing.
      expect(await asked.value('send', keyed)).toMatchObject({ status: 'accepted', repeated: true })
      const repeated = await asked.value('send', { to, text: 'first', idempotency_key: 'first' })
      expect(repeated).toMatchObject({ status: 'queued', waits_for: 'approval', repeated: true })
      expect(questions).toBe(1)
      expect(await shown()).toEqual(['asked'])
      await service.kill('SIGKILL')
    }
    const command = { home: dir, env: await storeVariablesOf(dir) }
    const run = (...words: string[]) => svc([...words, '-d', dir, ...upstreamFlags(sandbox)], command)
    const [first, second, third] = waiting.map(({ outbox_id }) => outbox_id)
    const listed = await run('approvals')
    expect([listed.status, listed.stdout.trim().split('\n').length]).toEqual([0, 4])
    expect(listed.stdout).toMatch(new RegExp(`\\n${first} .*default .*first\\n`))
    const yes = await run('approvals', 'yes', first)
    expect([yes.status, yes.stderr]).toEqual([0, ''])
    expect(await shown()).toEqual(['asked', 'first'])
    expect((await run('approvals', 'no', second)).status).toBe(0)

    const config = { confirmSend: true }
    await using t = await withGateway({ sandbox, dir, sessions: [], config })
    await using rest = await restOf(t.gateway)
    const approve = (id: string) => fetch(`${rest.url}/outbox/${id}/approve`, { method: 'POST' })
    const said = await approve(third)
    expect([said.status, await said.json()]).toMatchObject([200, { outbox_id: third, ended: true }])
    for (const id of [first, second, third]) expect((await approve(id)).status).toBe(404)
    expect(await shown()).toEqual(['asked', 'first', 'third'])
    // An agent hears what became of each, by its key.
    await using again = await mcpHere('http', { gateway: t, config })
    await using mute = await again.connect()
    const repeat = (text: string) => mute.call('send', { to, text, idempotency_key: text })
    expect((await repeat('third')).structuredContent).toMatchObject({ status: 'accepted' })
    const declined = (await repeat('second'))._meta['svc/problem']
    expect(declined).toMatchObject({ code: 'idempotency_conflict', details: { answer: 'declined' } })
    const { messages } = await mute.value('history', { text_contains: 'second', format: 'full' })
    expect(messages[0]).toMatchObject({ status: 'refused', reason_code: 'declined' })
    expect(await shown()).toEqual(['asked', 'first', 'third'])
  })
})

describe('tickets', () => {
  test('of a question that is too old, or of the oldest of too many, are not taken', () => {
    let now = 0
    const questions = new QuestionTickets(() => now)
    const late = questions.createTicket('a')
    now += 10 * 60_000
    expect(questions.useTicket(late, 'a')).toBe(false)
    const first = questions.createTicket('b')
    const others = Array.from({ length: 1000 }, () => questions.createTicket('c'))
    expect(questions.useTicket(first, 'b')).toBe(false)
    expect(others.every(ticket => questions.useTicket(ticket, 'c'))).toBe(true)
    expect(questions.useTicket(undefined, 'c')).toBe(false)
  })
})
