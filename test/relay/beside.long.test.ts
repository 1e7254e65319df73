/**
 * Three programs (Tencent's own client twice, and one as WeiLink) beside an agent, a webhook and a topic on one account: 500 messages
 * with every kind of media and quote. Each of them gets every message once.
 */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { receiver } from '../push/receiver.ts'
import { startWeChat } from '../support/cluster.ts'
import { ended } from '../support/ended.ts'
import { folderOfTest } from '../support/folder.ts'
import { overhear } from '../support/overheard.ts'
import { freePort } from '../support/port.ts'
import { type Json, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'
import { master, post, serviceArgs, startPrograms } from './programs.ts'

const count = Number(process.env.SVC_RELAY_MESSAGES ?? 500)
/** What is said in turn: texts, files, and quotes of earlier messages, of files too. */
const forms = [
  'text',
  'image',
  'id',
  'voice',
  'full',
  'video',
  'partial',
  'file',
  'type0',
  'quoting',
] as const
const noticeEvery = 25

interface Said {
  readonly id: string
  /** The text, or the MD5 of the file. */
  readonly content: string
  readonly isFile: boolean
  readonly quotes?: string
}

const md5Of = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex')
const get = async (url: string) => {
  const response = await fetch(url, { headers: { authorization: `Bearer ${master}` } })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response
}
/** How often each is in a list. */
const countsOf = (list: readonly string[]) =>
  list.reduce((counts, one) => counts.set(one, (counts.get(one) ?? 0) + 1), new Map<string, number>())
/** What is not in a list exactly once. */
const notOnce = (wanted: readonly string[], list: readonly string[]) => {
  const counts = countsOf(list)
  return wanted.filter(one => counts.get(one) !== 1)
}

async function say(wechat: string, nth: number, earlier: readonly Said[]): Promise<Said> {
  const form = forms[nth % forms.length]!
  const [quoted, quotedFile] = [earlier.findLast(one => !one.isFile), earlier.findLast(one => one.isFile)]
  if (form === 'text' || !quoted || (form === 'id' && !quotedFile)) {
    const content = `message ${nth} 你好 😀 "quoted" \\ end`
    const { message_id: id } = await post(`${wechat}/phone/say`, { text: content })
    return { id, content, isFile: false }
  }
  if (form === 'id' || form === 'full' || form === 'partial' || form === 'type0') {
    const content = `message ${nth} quotes`
    const quote = (form === 'id' ? quotedFile : quoted)!.id
    const { message_id: id } = await post(`${wechat}/phone/say`, { text: content, quote, how: form })
    return { id, content, isFile: false, quotes: quote }
  }
  const bytes = crypto.getRandomValues(new Uint8Array(20_000 + 997 * (nth % 100)))
  const quote = form === 'quoting' ? quoted.id : undefined
  const what = new URLSearchParams({
    ...{ kind: form === 'quoting' ? 'file' : form, name: `paper ${nth}.bin` },
    ...(quote !== undefined && { quote, how: 'id' }),
  })
  const { message_id: id } = await post(`${wechat}/phone/media?${what}`, bytes)
  return { id, content: md5Of(bytes), isFile: true, ...(quote !== undefined && { quotes: quote }) }
}

test(`${count} messages beside an agent, a webhook and a topic`, async () => {
  const dir = folderOfTest()
  const data = join(dir, 'data')
  await using wechat = await startWeChat(join(dir, 'wechat'))
  const port = freePort()
  await mkdir(data, { mode: 0o700 })
  await using service = await startService({
    dir: data,
    sandbox: false,
    cwd: dir,
    args: serviceArgs(wechat.url, port),
  })
  const world = { wechat: wechat.url, relay: `http://127.0.0.1:${port}`, services: [service] }
  await using programs = await startPrograms(world, dir)

  using hook = receiver()
  const env = { PATH: process.env.PATH ?? '', HOME: dir }
  const types = ['--types', 'message.received', '--allow-private', '-d', data]
  const added = await ended([...svcProgram, 'webhook', 'add', hook.url, ...types], { cwd: dir, env })
  expect([added.status, added.stderr]).toEqual([0, ''])
  await post(`${service.url}/topics`, { name: 'home', to: [programs.user] })

  const where = ['-d', data, '--upstream-url', wechat.url, '--cdn-url', `${wechat.url}/c2c`, '--pace', 'off']
  const how = ['--gather', '0', '--long', 'split', '--folder', join(dir, 'agent'), '--acp', '--no-commands']
  await mkdir(join(dir, 'agent'))
  const agent = Bun.spawn(
    [...svcProgram, 'agent', ...where, ...how, '--', ...svcProgram, 'echo-agent', '--acp'],
    { cwd: dir, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
  )
  const told = overhear(agent)
  await using _agent = {
    async [Symbol.asyncDispose]() {
      agent.kill('SIGKILL')
      await told.exited
    },
  }
  const tell = () => `${told.stdout}${told.stderr}`.slice(-3000) + service.log().slice(-3000)
  await until(
    'the agent has its place in the log',
    60_000,
    async () => {
      const consumers = (await (await get(`${service.url}/consumers`)).json()) as Json[]
      return consumers.some(({ name }) => name === 'agent-agent')
    },
    tell,
  )

  const shown = async (): Promise<string[]> => {
    const { messages } = (await (
      await get(`${wechat.url}/phone/messages?from=bot&limit=10000`)
    ).json()) as Json
    return messages.map(({ items }: Json) => String(items[0].text))
  }
  const answered = async () => (await shown()).flatMap(text => (/^\w+: /.test(text) ? [] : text.split('\n')))

  let lately: string[] = []
  const said: Said[] = []
  const notices: string[] = []
  using watch = stopwatch()
  while (said.length < count) {
    // Two together, since what a person may be answered is counted from the newer one. A notice leaves room for an agent.
    const isNoticed = said.length % noticeEvery === 0
    const more = isNoticed ? 1 : 2
    for (let nth = 0; nth < more && said.length < count; nth++)
      said.push(await say(wechat.url, said.length, said))
    const last = said.slice(-more)
    await until(
      `all have answered ${said.length}`,
      60_000,
      () =>
        programs.all.every(({ linesOf }) => {
          const sent = linesOf('sent').map(([, text = '']) => text)
          return last.every(({ content }) => sent.some(text => text.includes(content)))
        }),
      tell,
    )
    if (isNoticed) {
      notices.push(`notice ${said.length}`)
      await post(`${service.url}/topics/home/notices`, { text: notices.at(-1), priority: 'high' })
    }
    const wanted = [said.findLast(({ isFile }) => !isFile)!.content, ...notices.slice(-1)]
    await until(
      'the agent has answered, and the notice is there',
      60_000,
      async () => {
        lately = await answered()
        return wanted.every(text => lately.some(line => line.endsWith(text)))
      },
      () => lately.slice(-40).join('\n'),
    )
  }
  const tookMs = watch.ms

  const ids = said.map(({ id }) => id)
  for (const { linesOf, name } of programs.all) {
    const got = linesOf('got')
    expect([
      name,
      got.length,
      notOnce(
        ids,
        got.map(([, , id = '']) => id),
      ),
    ]).toEqual([name, count, []])
    const wrong = said.filter(({ id, content, quotes }) => {
      const [, gotContent, , quoted = ''] = got.find(line => line[2] === id)!
      return (
        gotContent !== content || (quotes === undefined ? quoted !== '' : !quoted.startsWith(`${quotes} `))
      )
    })
    expect([name, wrong]).toEqual([name, []])
  }

  await until('the webhook has them', 30_000, () => hook.got.length >= count, tell)
  const delivered = hook.got.map(({ body }) => String(body.data.message_id))
  expect([delivered.length, notOnce(ids, delivered)]).toEqual([count, []])
  for (const { content, id } of said.filter(({ isFile }) => isFile)) {
    const response = await get(`${service.url}/media/${id}/0?format=original`)
    expect([id, md5Of(await response.bytes())]).toEqual([id, content])
  }

  const texts = said.flatMap(({ content, isFile }) => (isFile ? [] : [content]))
  expect(
    notOnce(
      texts,
      (await answered()).map(line => line.replace(/^You said: /, '')),
    ),
  ).toEqual([])
  const inbox = join(dir, 'agent', 'inbox')
  // A file that a later message quotes is there again, with a number.
  const files = (await readdir(inbox)).filter(name => !/ \(\d+\)\./.test(name))
  const inAgent = await Promise.all(files.map(async name => md5Of(await Bun.file(join(inbox, name)).bytes())))
  const md5s = said.flatMap(({ content, isFile }) => (isFile ? [content] : []))
  expect([inAgent.length, notOnce(md5s, inAgent)]).toEqual([md5s.length, []])

  const all = await shown()
  const ofPrograms = programs.all.flatMap(({ linesOf }) => linesOf('sent').map(([, text = '']) => text))
  expect([
    ofPrograms.length,
    notOnce([...ofPrograms, ...notices.map(text => `[home] ❗ ${text}`)], all),
  ]).toEqual([programs.all.length * count, []])
  const stored: Json[] = []
  for (let before: number | undefined; ; ) {
    const page = await post(`${service.url}/tools/default/history`, { limit: 200, ...(before && { before }) })
    stored.push(...page.messages)
    before = page.next_before
    if (before === undefined) break
  }
  const received = stored
    .filter(({ direction }) => direction === 'received')
    .map(row => String(row.message_id))
  const sent = stored.filter(({ direction }) => direction === 'sent').map(({ text }) => String(text))
  expect([received.length, notOnce(ids, received)]).toEqual([count, []])
  expect([sent.length, notOnce(ofPrograms, sent)]).toEqual([all.length, []])
  console.log(
    `${count} messages, ${md5s.length} of them files, ${all.length} answers and notices: ${Math.round(tookMs / 1000)} s`,
  )
}, 1_800_000)
