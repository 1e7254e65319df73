/** What a cluster leaves in its database, in the log of that, and in its own. */
import { expect, test } from 'bun:test'
import { connectPg } from '../../src/platform/postgres.ts'
import { clusterSecret, startCluster } from '../support/cluster.ts'
import { ended } from '../support/ended.ts'
import { isPostgresThere, startPostgres } from '../support/postgres.ts'
import { password, postgresProgram, programEnv } from '../support/postgres-program.ts'
import { until } from '../support/until.ts'

test.skipIf(!isPostgresThere())(
  'no token, key or code is in a dump of the database, its log, a notification, or a log of a node',
  async () => {
    // The server writes every statement with its values, and every error, into its log.
    await using postgres = await startPostgres({
      settings: { log_statement: 'all', log_error_verbosity: 'verbose' },
    })
    await using cluster = await startCluster({ nodes: 2, postgres, args: ['--log-level', 'DEBUG'] })
    const { databaseName, nodes, phone } = cluster
    const [first, second] = nodes as [(typeof nodes)[0], (typeof nodes)[0]]
    const heard: string[] = []
    const listener = await connectPg({ url: postgres.url(databaseName), name: 'test', answerMs: 5000 })
    await listener.listen('svc', payload => void heard.push(payload))

    await cluster.logIn('work')
    const unfinished = (await first.call('login', { session_name: 'other' })).body
    const [{ user_id: user, bot_id: bot }] = (await first.call('sessions')).body
    const header = 'Bearer a-header-of-an-endpoint'
    const post = async (path: string, body: unknown = {}) => {
      const init = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }
      const response = await fetch(`${second.url}/${path}`, init)
      expect(response.ok).toBe(true)
      return await response.json()
    }
    const webhook = await post('webhooks', {
      url: 'https://hooks.invalid/a',
      headers: { Authorization: header },
    })
    const rotated = await post(`webhooks/${webhook.id}/rotate`)
    await phone('say', { text: 'one', from: user, to: bot })
    await until('the message is there', 20_000, async () => (await second.call('history', {})).body.total > 0)
    for (const node of nodes)
      expect(
        await node.call('send', { to: user, text: 'two', idempotency_key: `key-of-${node.pid}` }),
      ).toMatchObject({ status: 200 })
    for (const node of nodes)
      await node.call('send', { to: user, text: 'two', idempotency_key: `key-of-${first.pid}` })
    const problems = [
      await first.call('send', { to: 'nobody@im.wechat', text: 'x' }),
      await second.call('login', { session_name: 'other' }),
    ]
    expect(problems[0]!.status).toBeGreaterThanOrEqual(400)

    // From the first key on, each call needs one.
    const { key } = await post('keys', { name: 'k', can: ['read', 'send'] })
    const wrong = 'svc_of_nobody_0123456789abcdef0123456789abcdef'
    for (const [bearer, status] of [
      [key, 200],
      [wrong, 401],
    ] as const)
      expect(
        (await fetch(`${first.url}/me`, { headers: { authorization: `Bearer ${bearer}` } })).status,
      ).toBe(status)

    const dump = await ended([postgresProgram('pg_dump'), `--dbname=${postgres.superUrl(databaseName)}`], {
      cwd: '/',
      env: programEnv,
    })
    expect(dump.status).toBe(0)
    expect(dump.stdout).toContain('key-of-')
    listener.destroy()
    expect(heard.length).toBeGreaterThan(0)
    const secrets = [
      // Of bots, and of conversations, as WeChat makes them.
      /@im\.bot:[0-9a-f]{9}/,
      'AARzJWAF',
      unfinished.qr_url,
      new URL(unfinished.qr_url).searchParams.get('qrcode')!,
      header,
      webhook.secret,
      rotated.secret,
      key,
      wrong,
      clusterSecret,
      `:${password}@`,
    ]
    for (const [place, text] of Object.entries({
      dump: dump.stdout,
      'log of the server': postgres.log(),
      notifications: heard.join('\n'),
      'log of the first node': first.log(),
      'log of the second node': second.log(),
      problem: JSON.stringify(problems[0]!.body),
    }))
      for (const secret of secrets) {
        if (typeof secret === 'string') expect(secret.length).toBeGreaterThan(7)
        expect({
          place,
          secret,
          found: typeof secret === 'string' ? text.indexOf(secret) : text.search(secret),
        }).toEqual({ place, secret, found: -1 })
      }
  },
  120_000,
)
