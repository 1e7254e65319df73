/**
 * The conversation itself: what a user does with a new svc, through its interfaces and the simulated phone.
 */
import { readFile } from 'node:fs/promises'
import { isAbsolute, join, relative } from 'node:path'
import { type Json, logIn, type Service } from '../../test/support/service.ts'
import { until } from '../../test/support/until.ts'
import { listen, speak } from '../../test/support/voice.ts'
import { expectMatch } from './expected.ts'

/** A running service, and where its data is. */
export interface Run {
  service: Service
  /** The path as this script sees it, and as the service sees it. */
  data: string
  dataInside: string
  step<T>(name: string, work: () => Promise<T>): Promise<T>
}

/** What is known about the conversation so far. */
export interface ConversationState {
  user: string
  messages: Json[]
  /** Answers left. */
  remaining: number
}

export const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)
const report = Buffer.from('三季度:一切顺利\r\n')

/** Checks the pages that the program serves itself. */
export async function checkPages({ service, step }: Run, version: string): Promise<void> {
  await step('serves the docs, and describes itself', async () => {
    expectMatch((await (await get(`${service.url}/openapi.json`)).json()).info, { version })
    expectMatch((await (await get(`${service.url}/tools`)).json()).length, 9)
    await checkPage(`${service.url}/docs`)
  })
  await step('serves the panel and its languages', async () => {
    const panel = /^admin on (\S+)/m.exec(service.stdout())?.[1] ?? ''
    await checkPage(panel)
    const start = /id="start">(.*?)<\/script>/.exec(await (await get(panel)).text())?.[1] ?? '{}'
    const { languages } = JSON.parse(start)
    expectMatch(languages, [{ code: 'en' }, { code: 'zh', name: '中文' }])
    for (const { code, name } of languages) {
      expectMatch(await (await get(`${panel}/locales/${code}.json`)).json(), { 'language.name': name })
    }
  })
  await step('serves the phone', () => checkPage(`${service.phoneUrl}/phone`))
}

/** Runs the part from the login to the search. */
export async function startConversation(run: Run): Promise<ConversationState> {
  const { service, step } = run
  await step('logs in by QR code', async () => {
    expectMatch(await logIn(service, 'work'), { session: 'work', bot_id: /@im\.bot$/ })
  })

  const hello = await step('receives a text', async () => {
    await service.phone('say', { text: '你好,机器人' })
    const [message] = await receive(service, [
      { session: 'work', direction: 'received', msg_type: 'TEXT', text: '你好,机器人' },
    ])
    return message
  })
  const user: string = hello.from_user
  await step('sends a text', () => send(service, { to: user, text: 'Hello 👋' }, 9))
  await step('sends a picture that was uploaded', async () => {
    const upload = await fetch(`${service.url}/media?file_name=dot.png`, { method: 'POST', body: picture })
    const { upload_id } = (await upload.json()) as Json
    expectMatch([upload.status, typeof upload_id], [200, 'string'])
    await send(service, { to: user, media: [{ kind: 'image', upload_id }] }, 8)
  })
  await step('sends a picture that comes with the call', async () => {
    const data = picture.toString('base64')
    await send(service, { to: user, media: [{ kind: 'image', data, file_name: 'dot.png' }] }, 7)
  })
  await step('and the phone sees it all', async () => {
    const seen = await (await get(`${service.phoneUrl}/phone/messages?from=bot`)).json()
    const items = seen.messages.flatMap((message: Json) => message.items)
    expectMatch(items, [{ kind: 'text', text: 'Hello 👋' }, { kind: 'image' }, { kind: 'image' }])
    for (const { media_id } of items.slice(1)) {
      expectMatch(await getBytes(`${service.phoneUrl}/phone/media/${media_id}`), picture)
    }
  })
  await step('receives a file and downloads it', () => download(run))
  await step('receives a voice message as WAV', () => listenTo(run))
  await step('may answer afresh', () => send(service, { to: user, text: 'got it' }, 9))

  const messages = await step('finds what was said', async () => {
    const found = await service.call('history', { text_contains: '机器' })
    expectMatch(found.body, { total: 1, messages: [{ message_id: hello.message_id }] })
    const all = await service.call('history')
    expectMatch(all.body.total, 7)
    return all.body.messages
  })
  return { user, messages, remaining: 9 }
}

/** Checks after a restart that nothing is lost and nothing comes twice. */
export async function checkStillThere(
  { service, step }: Run,
  known: ConversationState,
): Promise<ConversationState> {
  await step('the login is still there', async () => {
    expectMatch((await service.call('sessions')).body, [
      { name: 'work', connected: true, status: 'connected', is_default: true, user_count: 1 },
    ])
  })
  await step('and every message, none of them new', async () => {
    expectMatch((await service.call('history')).body.messages, known.messages)
    await receive(service, [], 0)
  })
  const remaining = known.remaining - 1
  await step('and the right to answer', () =>
    send(service, { to: known.user, text: 'still here' }, remaining),
  )
  return { ...known, remaining }
}

/** Receives and sends one more message. */
export async function continueConversation(
  { service, step }: Run,
  { user }: ConversationState,
): Promise<ConversationState> {
  await step('the conversation goes on', async () => {
    await service.phone('say', { text: 'good' })
    await receive(service, [{ text: 'good', from_user: user }])
    await send(service, { to: user, text: 'bye' }, 9)
  })
  return { user, messages: (await service.call('history')).body.messages, remaining: 9 }
}

async function download({ service, data, dataInside }: Run): Promise<void> {
  const sent = await fetch(
    `${service.phoneUrl}/phone/media?kind=file&name=${encodeURIComponent('报告.txt')}`,
    {
      method: 'POST',
      body: report,
    },
  )
  expectMatch([sent.status, await sent.text()], [200, /./])
  const [message] = await receive(service, [{ msg_type: 'FILE', file: { file_name: '报告.txt' } }])
  const saved = (await service.call('download', { message_id: message.message_id })).body
  expectMatch(saved, { file_name: '报告.txt', size: report.length, content_type: 'text/plain' })
  const path = relative(dataInside, saved.path)
  expectMatch([isAbsolute(path), path.startsWith('..')], [false, false])
  expectMatch(await readFile(join(data, path)), report)
  expectMatch(await getBytes(`${service.url}/media/${message.message_id}/0`), report)
}

/** Receives a voice message, which svc decodes in another process. */
async function listenTo({ service }: Run): Promise<void> {
  const body = await speak(1)
  const sent = await fetch(`${service.phoneUrl}/phone/media?kind=voice`, {
    method: 'POST',
    body: new Uint8Array(body),
  })
  expectMatch([sent.status, await sent.text()], [200, /./])
  const [message] = await receive(service, [{ msg_type: 'VOICE' }])
  const address = `${service.url}/media/${message.message_id}/0`
  // svc gives up on a decoder that takes 10 s, as an emulated one may, and hands out the original.
  const wav = await until('it is decoded', 100_000, async () => {
    const bytes = await getBytes(address)
    return bytes.equals(body) ? undefined : bytes
  })
  expectMatch(listen(wav).seconds, 1)
  expectMatch(await getBytes(`${address}?format=original`), body)
}

async function receive(service: Service, expectedMessages: Json[], timeout = 20): Promise<Json[]> {
  const { status, body } = await service.call('recv', { timeout })
  expectMatch([status, body], [200, expectedMessages])
  return body
}

async function send(service: Service, input: Json, remaining: number): Promise<void> {
  const { status, body } = await service.call('send', input)
  expectMatch([status, body], [200, { success: true, status: 'accepted', session: 'work', remaining }])
}

async function get(url: string): Promise<Response> {
  const response = await fetch(url)
  if (response.status !== 200) throw new Error(`${url} answers ${response.status}: ${await response.text()}`)
  return response
}

const getBytes = async (url: string) => Buffer.from(await (await get(url)).arrayBuffer())

/** Checks a page and every file of svc that it names. */
async function checkPage(url: string): Promise<void> {
  const response = await get(url)
  expectMatch(response.headers.get('content-type'), /^text\/html/)
  const base = new URL(response.url.endsWith('/') ? response.url : url)
  for (const [, path = ''] of (await response.text()).matchAll(/(?:src|href)="([^"#:]+)"/g)) {
    const part = await get(new URL(path, base).href)
    if ((await part.arrayBuffer()).byteLength === 0) throw new Error(`${path} of ${url} is empty`)
  }
}
