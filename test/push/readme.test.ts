/** What src/push/README.md tells is run. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { endpointDelaysMs, eventDelaysMs } from '../../src/push/schedule.ts'
import { withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { freePort } from '../support/port.ts'
import type { Json } from '../support/rest.ts'
import { restOf } from '../support/rest.ts'
import { receiver } from './receiver.ts'

const it = given(withGateway)

const page = readFileSync(join(import.meta.dir, '../../src/push/README.md'), 'utf8')
const block = (language: string, nth = 0) =>
  [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].filter(found => found[1] === language)[nth]![2]!

it('the receiver in Python takes what svc signed, and nothing else', async t => {
  const port = await freePort()
  const [add, start] = block('sh', 1).replaceAll('9000', String(port)).split('\n')
  const [url] = /http\S+/.exec(add!)!
  expect(add).toContain('--allow-private')
  const { id, secret } = await t.gateway.webhooks.add(owner, {
    url,
    types: ['message.received'],
    allow_private: true,
  })
  await Bun.write(join(t.dir, 'hook.py'), block('python'))
  const words = start!.replace('whsec_…', secret).split(' ')
  const set = words.filter(word => word.includes('=')).map(word => word.split(/=(.*)/s))
  const python = Bun.spawn(words.slice(set.length), {
    env: { ...process.env, ...Object.fromEntries(set) },
    ...{ cwd: t.dir, stdout: 'pipe', stderr: 'ignore' },
  })
  try {
    const never = new AbortController().signal
    await t.until('it answers', async () => (await t.gateway.webhooks.sendTest(owner, id, never)).success)
    await t.sandbox.say('hello Python')
    // Not to its end, nor cancelled: what it prints later goes to a pipe that is still open.
    const reader = python.stdout.getReader()
    let printed = ''
    while (!printed.includes('hello Python')) {
      const { done, value } = await reader.read()
      if (done) break
      printed += new TextDecoder().decode(value)
    }
    expect(printed).toContain('hello Python')
    expect(printed).not.toContain('not from svc')
    const forged = { 'webhook-id': 'a', 'webhook-timestamp': String(Math.floor(Date.now() / 1000)) }
    const headers = { ...forged, 'webhook-signature': 'v1,AAAA' }
    expect((await fetch(url, { method: 'POST', body: '{}', headers })).status).toBe(401)
  } finally {
    python.kill()
    await python.exited
  }
}, 120_000)

/** The same event, of a picture: that has no text. */
const asPicture = (event: Json) => ({ ...event, data: { ...event.data, msg_type: 'IMAGE', text: '' } })

test('the waits that it tells of are those of the code', () => {
  const told = (ms: number) =>
    ms < 60_000 ? `${ms / 1000} s` : ms < 3_600_000 ? `${ms / 60_000} min` : `${ms / 3_600_000} h`
  expect(page).toContain(
    `after ${endpointDelaysMs.slice(0, -1).map(told).join(', ')}, then every ${told(endpointDelaysMs.at(-1)!)}`,
  )
  expect(page).toContain(`after ${eventDelaysMs.map(told).join(', ')}`)
})

it('the workflow for n8n answers a delivery as its nodes are documented', async t => {
  using r = receiver()
  const { nodes, connections } = JSON.parse(block('json', 1)) as {
    nodes: { name: string; parameters: Record<string, string> }[]
    connections: Record<string, { main: { node: string }[][] }>
  }
  const [hook, send] = nodes
  expect(connections[hook!.name]?.main[0]?.[0]?.node).toBe(send!.name)
  expect(new URL(/svc webhook add (\S+)/.exec(page.slice(page.indexOf('## n8n')))![1]!).pathname).toBe(
    `/webhook/${hook!.parameters.path}`,
  )
  await t.gateway.webhooks.add(owner, { url: r.url, types: ['message.received'], allow_private: true })
  await t.sandbox.say('good "day"')
  await t.until('delivered', () => r.got.length > 0)
  // The Webhook node gives what came as {headers, params, query, body}; an expression is JavaScript with it as $json.
  const [, expression] = /^=\{\{(.*)\}\}$/.exec(send!.parameters.jsonBody!)!
  const bodyOf = (body: Json): Record<string, string> =>
    JSON.parse(new Function('$json', `return ${expression}`)({ body }) as string)
  const { to, text, idempotency_key } = bodyOf(r.got[0]!.body)
  expect(bodyOf(asPicture(r.got[0]!.body)).text).toEndWith('IMAGE')
  // Another automation that answers the same event has another key.
  expect(idempotency_key).toEndWith(r.got[0]!.id)
  expect(idempotency_key).not.toBe(r.got[0]!.id)
  expect(hook!.parameters.authentication).toBe('headerAuth')
  await t.until('it may be answered', async () => (await t.right()) !== undefined)
  await t.send({ to: to!, text: text!, idempotency_key: idempotency_key! })
  const seen = await t.sandbox.seen(messages => messages.length > 0)
  expect(JSON.stringify(seen)).toContain(JSON.stringify('You said: good "day"').slice(1, -1))
})

it('the automation for Home Assistant answers a delivery as its integrations are documented', async t => {
  await using rest = await restOf(t.gateway)
  using r = receiver()
  const { rest_command, automation } = Bun.YAML.parse(block('yaml')) as Json
  const { url, method, content_type, payload, ...others } = rest_command.wechat
  expect([others, method, content_type]).toEqual([{}, 'POST', 'application/json'])
  const [{ triggers, actions }] = automation
  const [{ trigger, webhook_id, allowed_methods, local_only }] = triggers
  expect([trigger, local_only]).toEqual(['webhook', true])
  expect(actions[0].action).toBe('rest_command.wechat')
  expect(page.slice(page.indexOf('## Home Assistant'))).toContain(`:8123/api/webhook/${webhook_id} `)

  await t.gateway.webhooks.add(owner, { url: r.url, types: ['message.received'], allow_private: true })
  await t.sandbox.say('good "day"\n你好')
  await t.until('delivered', () => r.got.length > 0)
  const { body, headers } = r.got[0]!
  expect(allowed_methods).toContain('POST')
  // It gives `trigger.json` to a content type that has this word in it, and form data to any other.
  expect(headers.get('content-type')).toContain('json')

  // Templates that name a value, or one written as JSON.
  const rendered = (template: string, variables: Json): string =>
    template.replace(/\{\{ ([\w.]+)(?: or ([\w.]+))?( \| to_json)? \}\}/g, (_, path: string, or, json) => {
      const at = (path: string) => path.split('.').reduce((one, key) => one[key], variables)
      const value = at(path) || at(or)
      expect([path, typeof value]).toEqual([path, 'string'])
      return json ? JSON.stringify(value) : value
    })
  const dataOf = (body: Json) =>
    Object.fromEntries(
      Object.entries<string>(actions[0].data).map(([name, template]) => [
        name,
        rendered(template, { trigger: { json: body } }),
      ]),
    )
  const data = dataOf(body)
  expect(dataOf(asPicture(body)).text).toEndWith('IMAGE')
  await t.until('it may be answered', async () => (await t.right()) !== undefined)
  const answers = []
  // Twice, as after a repeat.
  for (let i = 0; i < 2; i++) {
    const answer = await fetch(rest.url + new URL(url).pathname, {
      ...{ method, headers: { 'content-type': content_type }, body: rendered(payload, data) },
    })
    answers.push([answer.status, await answer.json()])
  }
  expect(answers[0]).toMatchObject([200, { status: 'accepted' }])
  const [status, first] = answers[0]!
  expect(answers[1]).toEqual([status, { ...first, repeated: true }])
  const [seen, ...more] = await t.sandbox.seen(messages => messages.length > 0)
  expect(more).toEqual([])
  expect(JSON.stringify(seen)).toContain(JSON.stringify('You said: good "day"\n你好').slice(1, -1))
})

it('the flow for Node-RED answers a delivery as its nodes are documented, and takes no other', async t => {
  await using rest = await restOf(t.gateway)
  using r = receiver()
  const nodes: Json[] = JSON.parse(block('json', 2))
  const named = (id: string) => nodes.find(node => node.id === id)!
  const typed = (type: string) => nodes.find(node => node.type === type)!
  for (const { wires = [], z } of nodes.filter(({ type }) => type !== 'tab')) {
    expect(named(z).type).toBe('tab')
    for (const id of wires.flat()) expect(named(id)).toBeDefined()
  }
  const [hook, answer, send] = [typed('http in'), typed('function'), typed('http request')]
  const told = page.slice(page.indexOf('## Node-RED'))
  expect(new URL(/svc webhook add (\S+)/.exec(told)![1]!).pathname).toBe(hook.url)
  expect(hook.wires).toEqual([[answer.id]])
  expect(answer.wires.map(([id]: string[]) => named(id!).type)).toEqual(['http response', 'http request'])

  const [, header = ''] = /--header "([\w-]+): /.exec(told)!
  const [, secret = ''] = /=== '([^']+)'/.exec(answer.func)!
  expect(told.slice(0, told.indexOf('```'))).toContain(`\`${secret}\``)
  const headers = { [header]: secret }
  await t.gateway.webhooks.add(owner, {
    url: r.url,
    types: ['message.received'],
    allow_private: true,
    headers,
  })
  await t.sandbox.say('good "day"')
  await t.until('delivered', () => r.got.length > 0)
  const [{ body, headers: came } = { body: {}, headers: new Headers() }] = r.got
  // The node gives the parsed body as the payload; a function is JavaScript with it as msg.
  const run = (headers: Record<string, string>): Json[] =>
    new Function('msg', answer.func)({ payload: body, req: { headers } })
  expect(run({})).toMatchObject([{ statusCode: 401 }, null])
  expect(run({ [header.toLowerCase()]: 'wrong' })).toMatchObject([{ statusCode: 401 }, null])
  const [taken, sent] = run(Object.fromEntries(came))
  expect(taken.statusCode).toBe(204)
  await t.until('it may be answered', async () => (await t.right()) !== undefined)
  const { pathname } = new URL(send.url)
  const init = { method: send.method, headers: sent.headers, body: JSON.stringify(sent.payload) }
  expect(await (await fetch(rest.url + pathname, init)).json()).toMatchObject({ status: 'accepted' })
  const seen = await t.sandbox.seen(messages => messages.length > 0)
  expect(JSON.stringify(seen)).toContain(JSON.stringify('You said: good "day"').slice(1, -1))
  // A picture has no text.
  expect(
    new Function('msg', answer.func)({
      payload: asPicture(body),
      req: { headers: Object.fromEntries(came) },
    })[1].payload.text,
  ).toEndWith('IMAGE')
})
