/** Models at an address, good and bad ones, on loopback. */
import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PromptFile } from '../../../src/agent/backend.ts'
import { createOpenAiBackend, type OpenAiOptions } from '../../../src/agent/backends/openai.ts'
import { type ErrorCode, isSvcError } from '../../../src/index.ts'
import { failure } from '../../support/failure.ts'
import { folderOfTest } from '../../support/folder.ts'
import { until } from '../../support/until.ts'

interface Request {
  readonly authorization: string | null
  readonly model: string
  readonly stream: boolean
  readonly messages: {
    role: string
    content: string | { type: string; text?: string; image_url?: { url: string } }[]
  }[]
}
type Answer = (request: Request, signal: AbortSignal) => Response | Promise<Response>

const servers: { stop(force: boolean): unknown }[] = []
afterAll(() => {
  for (const server of servers) server.stop(true)
})

function startModel(answer: Answer): { url: string; requests: Request[] } {
  const requests: Request[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      if (new URL(request.url).pathname !== '/v1/chat/completions')
        return new Response('what?', { status: 404 })
      const authorization = request.headers.get('authorization')
      requests.push({ authorization, ...((await request.json()) as Omit<Request, 'authorization'>) })
      return answer(requests.at(-1)!, request.signal)
    },
  })
  servers.push(server)
  return { url: `http://127.0.0.1:${server.port}/v1`, requests }
}

const chunk = (content: string, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason }] })}\n\n`
const end = `${chunk('', 'stop')}data: [DONE]\n\n`

/** Answers with these pieces of a body, each sent by itself. */
const stream = (pieces: Iterable<string | Uint8Array>, type = 'text/event-stream') => {
  const iterator = pieces[Symbol.iterator]()
  return new Response(
    new ReadableStream({
      async pull(controller) {
        const { done, value } = iterator.next()
        if (done) controller.close()
        else controller.enqueue(typeof value === 'string' ? new TextEncoder().encode(value) : value)
        await new Promise(resolve => setTimeout(resolve))
      },
    }),
    { headers: { 'content-type': type } },
  )
}

/** A person who talks with the model in one folder. */
function talker(options: Omit<OpenAiOptions, 'model'>, folder = folderOfTest()) {
  let agentSession: string | undefined
  const backend = createOpenAiBackend({ model: 'small', ...options })
  return {
    backend,
    folder,
    forget: () => {
      agentSession = undefined
    },
    async ask(text: string, files: readonly PromptFile[] = [], signal = new AbortController().signal) {
      const context = { folder, agentSession, signal, ask: () => Promise.reject(new Error('asks nobody')) }
      const result = await backend.run({ text, files }, context)
      agentSession = result.agentSession
      return result
    },
    get session() {
      return agentSession
    },
    set session(id) {
      agentSession = id
    },
  }
}

const textsOf = ({ messages }: Request) => messages.slice(1).map(({ content }) => content)
const echo: Answer = ({ messages }) =>
  stream([chunk('you said '), chunk(String(messages.at(-1)!.content)), end])

test('pictures of a model are in the answer, and their bytes are not sent to it again', async () => {
  const bytes =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='
  const address = `data:image/png;base64,${bytes}`
  const forms: readonly (readonly [object, string])[] = [
    [{ images: [{ type: 'image_url', image_url: { url: address } }] }, address],
    [{ content: '', images: [{ image_url: 'https://example.com/a.png' }] }, 'https://example.com/a.png'],
    [{ content: [{ type: 'image_url', image_url: { url: address } }] }, address],
    [{ content: [{ type: 'output_image', b64_json: bytes }] }, address],
    [{ content: [{ type: 'image', source: { type: 'base64', data: bytes } }] }, address],
    [{ content: `![a](${address})` }, address],
    [{ images: [null, { type: 'image_url' }] }, 'data:,'],
    [
      { images: [{ image_url: { url: `data:image/png;base64,${'A'.repeat(5_000_000)}` } }] },
      'A'.repeat(5_000_000),
    ],
  ]
  for (const [said, expected] of forms)
    for (const key of ['delta', 'message']) {
      const body = JSON.stringify({ choices: [{ [key]: said, finish_reason: 'stop' }] })
      const { requests, url } = startModel(() =>
        key === 'delta'
          ? stream([`data: ${body}\n\n`, 'data: [DONE]\n\n'])
          : stream([body], 'application/json'),
      )
      const person = talker({ url })
      expect((await person.ask('draw')).text.includes(expected)).toBe(true)
      await person.ask('again')
      expect(JSON.stringify(requests[1]).includes('base64')).toBe(false)
    }
})

test('the answer is read as a stream, and the conversation goes on, also in another process', async () => {
  const { requests, url } = startModel(echo)
  const keyFile = join(folderOfTest(), 'key')
  writeFileSync(keyFile, 'sk-1\n')
  const person = talker({ url: `${url}/`, keyFile, system: 'Be kind.' })
  expect(await person.ask('hello')).toMatchObject({ text: 'you said hello' })
  expect(requests[0]).toMatchObject({ authorization: 'Bearer sk-1', model: 'small', stream: true })
  expect(requests[0]!.messages[0]).toEqual({ role: 'system', content: 'Be kind.' })

  const later = talker({ url }, person.folder)
  later.session = person.session
  await later.ask('again')
  expect(textsOf(requests[1]!)).toEqual(['hello', 'you said hello', 'again'])
  expect(requests[1]!.authorization).toBeNull()

  // A turn without the session has a conversation of its own, and leaves the other alone.
  later.forget()
  await later.ask('a new one')
  expect(textsOf(requests[2]!)).toEqual(['a new one'])
  await person.ask('back')
  expect(textsOf(requests[3]!)).toEqual(['hello', 'you said hello', 'again', 'you said again', 'back'])
  const files = readdirSync(person.folder)
  expect(files).toHaveLength(2)
  for (const file of files) expect(statSync(join(person.folder, file)).mode & 0o777).toBe(0o600)
})

test('pieces that cut characters and lines, thoughts, and an address that does not stream', async () => {
  const bytes = new TextEncoder().encode(
    `: a comment\r\n\r\n${chunk('<think>hm\n</think>\n你')}junk\n${chunk('好')}${end}`,
  )
  const pieces = Array.from({ length: bytes.length }, (_none, at) => bytes.subarray(at, at + 1))
  expect(await talker(startModel(() => stream(pieces))).ask('x')).toMatchObject({ text: '你好' })
  const whole = { choices: [{ message: { content: 'whole' }, finish_reason: 'stop' }] }
  expect(await talker(startModel(() => Response.json(whole))).ask('x')).toMatchObject({ text: 'whole' })
})

const thoughts: [what: string, content: unknown, text: string | undefined][] = [
  ['an end without a beginning', 'reasoning</think>Hello', 'Hello'],
  ['a thought that does not end', '<think>reasoning', undefined],
  ['an answer, then a thought that does not end', 'Hello\n<think>more', 'Hello'],
  ['a second thought', '<think>a</think>Hello<think>b</think> world', 'Hello world'],
  ['a thought in a thought', '<think>a<think>b</think>c</think>Hello', 'Hello'],
  ['an empty thought before the thought', '<think>\n\n</think>\n\na</think>Hello', 'Hello'],
  ['other marks', '[THINK]a[/THINK]<THINKING>b</THINKING><thought>c</thought>◁think▷d◁/think▷Hi', 'Hi'],
  ['channels', '<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>Hi', 'Hi'],
  ['code in a thought', '<think>\n```\na\n</think>\nIt is `b`:\n```\nc\n```', 'It is `b`:\n```\nc\n```'],
  ['marks as a topic', 'Use `<think>` and `</think>`.', 'Use `<think>` and `</think>`.'],
  ['marks in code', '```xml\n<think>a</think>\n```\nSo.', '```xml\n<think>a</think>\n```\nSo.'],
  [
    'a list of chunks',
    [
      { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
      { type: 'text', text: 'Hello' },
      { type: 'reference', reference_ids: [1] },
      { type: 'text', text: ' world' },
    ],
    'Hello world',
  ],
  ['a list of thoughts', [{ type: 'thinking', thinking: 'hm' }, null, 7], undefined],
  ['a list with a refusal', [{ type: 'refusal', refusal: 'No.' }], 'No.'],
]
const answerWith = (said: object): Answer[] => [
  () => Response.json({ choices: [{ message: said, finish_reason: 'stop' }] }),
  () => stream([`data: ${JSON.stringify({ choices: [{ delta: said }] })}\n\n`, end]),
]

test.each(thoughts)('the answer alone arrives of %s', async (_what, content, text) => {
  for (const answer of answerWith({ content })) {
    const asked = talker(startModel(answer)).ask('x')
    if (text === undefined)
      expect(await failure(asked)).toMatchObject({ message: expect.stringContaining('thought') })
    else expect((await asked).text).toBe(text)
  }
})

test('thoughts in fields of their own are no answer; a refusal is one', async () => {
  for (const field of ['reasoning_content', 'reasoning'])
    for (const answer of answerWith({ [field]: 'hm', content: null }))
      expect(await failure(talker(startModel(answer)).ask('x'))).toMatchObject({
        message: expect.stringContaining('thought'),
      })
  for (const answer of answerWith({ content: null, refusal: 'No.' }))
    expect((await talker(startModel(answer)).ask('x')).text).toBe('No.')
  const pieces = ['<thi', 'nk>a</', 'think>Hel', 'lo'].map(text => chunk(text))
  expect((await talker(startModel(() => stream([...pieces, end]))).ask('x')).text).toBe('Hello')
})

test('pictures are sent as data, again with later turns; a model that refuses them gets the text', async () => {
  const seeing = startModel(() => stream([chunk('a cat'), end]))
  const person = talker(seeing)
  const path = join(person.folder, 'a.png')
  writeFileSync(path, 'PNG')
  const picture: PromptFile = { path, name: 'a.png', type: 'image/png', kind: 'image' }
  await person.ask('what is it?', [
    picture,
    { ...picture, path: join(person.folder, 'absent.png') },
    { ...picture, path: '/etc/passwd' },
    { ...picture, kind: 'file' },
  ])
  await person.ask('sure?')
  for (const request of seeing.requests)
    expect(request.messages[1]!.content).toEqual([
      { type: 'text', text: 'what is it?' },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${btoa('PNG')}` } },
    ])
  const blind = startModel(({ messages }) =>
    messages.some(({ content }) => typeof content !== 'string')
      ? Response.json({ error: { message: 'no pictures' } }, { status: 400 })
      : stream([chunk('I see nothing'), end]),
  )
  expect(await talker(blind).ask('what is it?', [picture])).toMatchObject({ text: 'I see nothing' })
})

test('the conversation is bounded, and a damaged one begins again', async () => {
  const { requests, url } = startModel(echo)
  const person = talker({ url })
  for (let turn = 0; turn < 60; turn++) await person.ask(`turn ${turn}`)
  expect(textsOf(requests.at(-1)!)).toHaveLength(41)
  for (let turn = 0; turn < 5; turn++) await person.ask('x'.repeat(50_000))
  await person.ask('last')
  expect(JSON.stringify(requests.at(-1)).length).toBeLessThan(150_000)
  const [file = ''] = readdirSync(person.folder)
  for (const damaged of ['{', '[]', '{"messages":[{"role":"user","text":7}]}', '']) {
    writeFileSync(join(person.folder, file), damaged)
    expect((await person.ask('again')).text).toMatch(/.+\n\nyou said again$/)
    expect(textsOf(requests.at(-1)!)).toEqual(['again'])
  }
  person.session = '../../etc/passwd'
  await person.ask('elsewhere')
  expect(person.session).not.toContain('/')
})

function* endless(piece: string, first = '') {
  yield first
  for (;;) yield piece
}

const half = (content: string) => stream([chunk(content)])
const bad: [what: string, answer: Answer, code: ErrorCode, words: string][] = [
  [
    'an error in HTML',
    () => new Response('<h1>Bad\ngateway', { status: 502 }),
    'upstream_error',
    '502: <h1>Bad gateway',
  ],
  [
    'an unknown model',
    () => Response.json({ error: { message: 'no such model' } }, { status: 404 }),
    'upstream_error',
    '404: no such model',
  ],
  [
    'a wrong key',
    () => Response.json({ error: 'bad key' }, { status: 401 }),
    'upstream_error',
    'refused the key (status 401): bad key',
  ],
  ['another place', () => Response.redirect('http://127.0.0.1:9/'), 'upstream_error', 'status 302'],
  [
    'an error without end',
    () => new Response(stream(endless('x'.repeat(9999))).body, { status: 500 }),
    'upstream_error',
    '500: xxx',
  ],
  [
    'a page',
    () => new Response('<h1>Welcome', { headers: { 'content-type': 'text/html' } }),
    'upstream_error',
    'broke off',
  ],
  ['nothing', () => new Response(null), 'upstream_error', 'broke off'],
  ['half an answer', () => half('half'), 'upstream_error', 'broke off'],
  [
    'half an object',
    () => new Response('{"choices":[', { headers: { 'content-type': 'application/json' } }),
    'upstream_error',
    'broke off',
  ],
  ['an empty answer', () => stream([end]), 'upstream_error', 'answered nothing (stop)'],
  [
    'an error in the stream',
    () => stream([chunk('a'), 'data: {"error":{"message":"out of memory"}}\n\n']),
    'upstream_error',
    'out of memory',
  ],
  [
    'odd fields',
    () =>
      stream(['data: {"choices":[null]}\n', 'data: {"choices":{"0":1}}\n', 'data: 7\n', 'data: [DONE]\n']),
    'upstream_error',
    'answered nothing',
  ],
  ['words without end', () => stream(endless(chunk('x'.repeat(50_000)))), 'payload_too_large', 'too long'],
  [
    'a line without end',
    () => stream(endless('x'.repeat(4_000_000), 'data: ')),
    'payload_too_large',
    'too long',
  ],
  [
    'an object without end',
    () => stream(endless(' '.repeat(500_000)), 'application/json'),
    'payload_too_large',
    'too long',
  ],
]

describe('an address that answers with', () => {
  test.each(bad)('%s is an error', async (_what, answer, code, words) => {
    const before = process.memoryUsage.rss()
    const error = await failure(talker(startModel(answer)).ask('x'))
    expect(isSvcError(error, code)).toBe(true)
    expect(String(error)).toContain(words)
    expect(String(error).length).toBeLessThan(500)
    expect(process.memoryUsage.rss() - before).toBeLessThan(500 * 1024 * 1024)
  })

  test('no connection, or no key in the file, is an error', async () => {
    const { url } = startModel(echo)
    const refused = talker({ url: 'http://127.0.0.1:9/v1' }).ask('x')
    expect(String(await refused.catch(error => error))).toContain('127.0.0.1:9 cannot be reached')
    const keyless = talker({ url, keyFile: '/absent' }).ask('x')
    expect(String(await keyless.catch(error => error))).toContain('key_file')
  })

  test('silence is an error; a stop ends the request, and the turn leaves no trace', async () => {
    const asked: AbortSignal[] = []
    const { requests, url } = startModel((_request, signal) => {
      asked.push(signal)
      let isFirst = true
      const body = new ReadableStream({
        pull(controller) {
          if (isFirst) controller.enqueue(new TextEncoder().encode(chunk('well')))
          isFirst = false
          return new Promise(resolve => setTimeout(resolve, 5))
        },
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    })
    const error = await failure(talker({ url, silenceMs: 200 }).ask('x'))
    expect(isSvcError(error, 'upstream_timeout')).toBe(true)

    const person = talker({ url })
    const stop = new AbortController()
    const turn = person.ask('x', [], stop.signal).catch(error => error)
    await until('it is asked', 10_000, () => requests.length === 2)
    stop.abort(new Error('stopped'))
    expect(await turn).toEqual(new Error('stopped'))
    await until('the request ends', 10_000, () => asked[1]?.aborted)
    expect(readdirSync(person.folder)).toEqual([])

    const closing = person.ask('x').catch(error => error)
    await until('it is asked', 10_000, () => requests.length === 3)
    await person.backend.close()
    expect(isSvcError(await closing, 'shutting_down')).toBe(true)
  })
})

test.each([
  ['length', 'length'],
  ['content_filter', 'refused'],
  ['stop', undefined],
  ['constructor', undefined],
])('an answer that ended by %s says so', async (reason, early) => {
  const { url } = startModel(() => stream([chunk('half an'), chunk('', reason), 'data: [DONE]\n\n']))
  expect(await talker({ url }).ask('hello')).toMatchObject({ text: 'half an', early })
})

test('a model is one of those that the address lists, and svc still has a conversation or not', async () => {
  const folder = folderOfTest()
  const asked: { path: string; authorization: string | null; model?: string }[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname: path } = new URL(request.url)
      const authorization = request.headers.get('authorization')
      asked.push({ path, authorization, ...(request.method === 'POST' && Object(await request.json())) })
      if (path === '/v1/models') return Response.json({ data: [{ id: 'small' }, { id: 'large' }] })
      const message = { role: 'assistant', content: 'hi' }
      return Response.json({ choices: [{ message, finish_reason: 'stop' }] })
    },
  })
  servers.push(server)
  const keyFile = join(folderOfTest(), 'key')
  writeFileSync(keyFile, 'secret')
  const place = { folder, signal: new AbortController().signal, ask: async () => '' }
  for (const path of ['/v1', '/v1/chat/completions']) {
    const url = `http://127.0.0.1:${server.port}${path}`
    const backend = createOpenAiBackend({ url, model: 'small', keyFile })
    const offers = await backend.look!(place)
    expect(offers.model?.choices.map(({ id }) => id)).toEqual(['small', 'large'])
    expect(offers.model?.current).toBe('small')
    expect(asked.at(-1)).toEqual({ path: '/v1/models', authorization: 'Bearer secret' })
    const { agentSession } = await backend.run({ text: 'hello', files: [] }, { ...place, model: 'large' })
    expect(asked.at(-1)?.model).toBe('large')
    expect((await backend.look!({ ...place, agentSession })).isSame).toBe(true)
    expect((await backend.look!({ ...place, agentSession: crypto.randomUUID() })).isSame).toBe(false)
  }
  const none = createOpenAiBackend({ url: startModel(() => new Response()).url, model: 'small' })
  expect((await none.look!(place)).model?.choices).toEqual([])
  const gone = createOpenAiBackend({ url: 'http://127.0.0.1:9/v1', model: 'small' })
  expect(await gone.look!(place)).toEqual({ isSame: false, untold: expect.any(Error) })
  const failing = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => new Response('no', { status: 500 }),
  })
  servers.push(failing)
  const broken = createOpenAiBackend({ url: `http://127.0.0.1:${failing.port}/v1`, model: 'small' })
  expect((await broken.look!(place)).untold).toBeInstanceOf(Error)
})
