import { describe, expect, test } from 'bun:test'
import type { McpServer } from '@modelcontextprotocol/server'
import { addSubscriptions } from '../../src/mcp/announcements.ts'
import type { McpContext, ResourceChange, ResourceChanges } from '../../src/mcp/context.ts'
import { conversationUri, inboxUri, spellingsOf, subscriptionKey } from '../../src/mcp/uris.ts'
import { stdio } from '../../src/model/principal.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { withMcpPair } from '../support/mcp-pair.ts'

describe('announcements', () => {
  test('a backlog is one piece of news', async () => {
    await using pair = await withMcpPair()
    const { client, news, t } = pair
    await client.subscribeResource({ uri: 'svc://inbox' })
    await t.sandbox.bulk(500)
    await t.receive(500)
    await t.until('announced', () => news.includes('svc://inbox'))
    expect(news.filter(uri => uri === 'svc://inbox').length).toBeLessThan(50)
  })

  test('who unsubscribed hears nothing more', async () => {
    await using pair = await withMcpPair()
    const { client, news, t } = pair
    const talk = conversationUri('default', t.bots.get('default')!.user_id)
    await client.subscribeResource({ uri: talk })
    await client.subscribeResource({ uri: 'svc://inbox' })
    await client.unsubscribeResource({ uri: talk })
    await t.sandbox.say('hi')
    await t.until('announced', () => news.includes('svc://inbox'))
    expect(news).not.toContain(talk)
  })

  test('sessions are announced when they change, not when they are polled', async () => {
    await using pair = await withMcpPair()
    const { client, news, t } = pair
    await client.subscribeResource({ uri: 'svc://sessions' })
    const polls = t.requests('getupdates')
    await t.sandbox.advance(40_000)
    await t.until('polled again', () => t.requests('getupdates') > polls)
    let looks = 0
    t.gateway.changes.subscribe({ sessions: () => void looks++ })
    await t.until('others are told of the poll', () => {
      t.clock.advance(1000)
      return looks > 0
    })
    expect(news).toEqual([])
    await t.gateway.accounts.rename('default', 'renamed')
    await t.until('announced', () => {
      t.clock.advance(2500)
      return news.includes('svc://sessions') && news.includes('')
    })
  })

  test('nothing follows the log when nobody listens, and news begin again with the next listener', async () => {
    await using pair = await withMcpPair()
    const { changes, t } = pair
    pair.close()
    await t.sandbox.say('unheard')
    await t.receive(1)
    const heard: string[] = []
    const stop = changes.subscribe(
      stdio,
      change => void heard.push(change.kind === 'updated' ? change.uri : ''),
    )
    await t.sandbox.say('heard')
    await t.until('announced', () => heard.includes('svc://inbox'))
    expect(pair.news).toEqual([])
    stop()
    stop()
    const before = heard.length
    await t.sandbox.say('unheard again')
    await t.receive(2)
    expect(heard).toHaveLength(before)
  })

  test('what is never announced cannot be subscribed', async () => {
    await using pair = await withMcpPair()
    for (const uri of ['svc://media/1/0', 'svc://nothing', 'no uri', 'svc://conversations/a'])
      expect(await failure(pair.client.subscribeResource({ uri }))).toMatchObject({
        code: -32602,
        message: expect.stringContaining('Subscribe to svc://inbox'),
      })
  })
})

test('addresses that name the same are known as the same', () => {
  const uri = conversationUri('工作', 'u@im.wechat')
  expect(uri).toBe('svc://conversations/%E5%B7%A5%E4%BD%9C/u%40im.wechat')
  expect(spellingsOf(uri)).toEqual([
    uri,
    'svc://conversations/%E5%B7%A5%E4%BD%9C/u@im.wechat',
    'svc://conversations/工作/u@im.wechat',
  ])
  for (const spelt of spellingsOf(uri)) expect(subscriptionKey(spelt)).toBe(uri)
  // Slashes and per cent signs inside a name stay encoded.
  expect(spellingsOf(conversationUri('a', 'u/v'))).toEqual(['svc://conversations/a/u%2Fv'])
  expect(spellingsOf(conversationUri('a', 'u%41'))).toEqual(['svc://conversations/a/u%2541'])
  expect(spellingsOf('svc://inbox')).toEqual(['svc://inbox'])
  expect(subscriptionKey('svc://conversations/Work/u')).toBe('svc://conversations/work/u')
  expect(subscriptionKey('svc://conversations/a/b/c')).toBeUndefined()
})

test('a message does not touch a session of the legacy era that has subscribed to nothing', () => {
  const handlers = new Map<string, (request: { params: { uri: string } }) => unknown>()
  const touched: string[] = []
  let listener: (change: ResourceChange) => void = () => {}
  const server = {
    server: {
      registerCapabilities() {},
      setRequestHandler: (method: string, handler: (request: { params: { uri: string } }) => unknown) =>
        void handlers.set(method, handler),
      getClientCapabilities: () => touched.push('capabilities'),
      sendResourceUpdated: async ({ uri }: { uri: string }) => touched.push(uri),
    },
    isConnected: () => touched.push('connected'),
  }
  const changes: ResourceChanges = {
    followed: async () => {},
    subscribe(_by, own) {
      listener = own
      return () => {}
    },
  }
  const { signal: closed } = new AbortController()
  const context = { by: stdio, changes, closed, era: 'legacy', lasting: true, log: silentLog }
  addSubscriptions(server as unknown as McpServer, context as unknown as McpContext)
  listener({ kind: 'updated', uri: inboxUri })
  expect(touched).toEqual([])
  handlers.get('resources/subscribe')!({ params: { uri: inboxUri } })
  listener({ kind: 'updated', uri: inboxUri })
  expect(touched).toContain(inboxUri)
})
