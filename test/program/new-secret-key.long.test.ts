/** The secret key of a cluster changes while its nodes run, and some of them die. */
import { describe, expect, test } from 'bun:test'
import { createSealer } from '../../src/platform/sealing.ts'
import { type ClusterNode, clusterSecret, startCluster } from '../support/cluster.ts'
import { ended } from '../support/ended.ts'
import { failure } from '../support/failure.ts'
import { isPostgresThere } from '../support/postgres.ts'
import type { Json } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const withinMs = 60_000
const newSecret = 'nGq7-Zt4VwXc91LmPrEbUyKoS23hDfJa'
const [oldId = '', newId = ''] = [clusterSecret, newSecret].map(secret => createSealer(secret).keyId)
const withBoth = { SVC_SECRET_KEY: clusterSecret, SVC_NEW_SECRET_KEY: newSecret }

describe('svc secrets rotate', () => {
  test.skipIf(!isPostgresThere())(
    'on PostgreSQL seals everything anew while nodes run and die, and loses nothing',
    async () => {
      await using cluster = await startCluster({ nodes: 3, args: ['--pace', 'off'] })
      const { databaseName, nodes, postgres } = cluster
      const psql = (sql: string) => postgres.psql(sql, databaseName)
      const env = {
        PATH: process.env.PATH ?? '',
        HOME: nodes[0]!.dir,
        SVC_STORE_URL: postgres.url(databaseName),
      }
      const run = (
        args: string[],
        keys: Record<string, string>,
        started?: (child: { pid: number }) => void,
      ) =>
        ended([...svcProgram, ...args], {
          cwd: nodes[0]!.dir,
          env: { ...env, ...keys },
          ...(started && { started }),
        })
      const rotate = (started?: (child: { pid: number }) => void) =>
        run(['secrets', 'rotate', '--json'], withBoth, started)
      const doctor = async () =>
        JSON.parse((await run(['doctor', '--json'], withBoth)).stdout).findings.filter(
          ({ check }: Json) => check === 'keys',
        )
      const nameOf = ({ pid }: ClusterNode) => new RegExp(`\\S+:${pid}\\b`)
      const restart = async (
        node: ClusterNode,
        own: Record<string, string>,
        signal: NodeJS.Signals = 'SIGTERM',
      ) => {
        await node.kill(signal)
        return cluster.addNode({ dir: node.dir, env: own })
      }
      /** Sends, and receives, by two nodes. */
      const converse = async (from: ClusterNode, by: ClusterNode, text: string) => {
        await cluster.phone('say', { text })
        let got: Json
        await until(`${text} is received`, withinMs, async () => {
          const { body } = await from.call('recv', { timeout: 5 })
          got = body.find((message: Json) => message.text === text)
          return got
        })
        expect(await by.call('send', { to: got.from_user, text: `you said ${text}` })).toMatchObject({
          status: 200,
          body: { success: true },
        })
      }

      await cluster.phone('switches', { burst: 'off' })
      await cluster.logIn('work')
      let [one, two, three] = nodes as [ClusterNode, ClusterNode, ClusterNode]
      await converse(one, two, 'first')
      expect((await one.call('login', { session_name: 'later' })).body).toMatchObject({ status: 'waiting' })
      const hook = ['webhook', 'add', 'http://127.0.0.1:9/hook', '--allow-private']
      expect(await run(hook, { SVC_SECRET_KEY: clusterSecret })).toMatchObject({ status: 0 })

      // No node has the new key; then one lacks it.
      const none = await rotate()
      expect(none.status).toBe(1)
      for (const node of [one, two, three]) expect(none.stderr).toMatch(nameOf(node))
      one = await restart(one, withBoth)
      two = await restart(two, withBoth)
      const some = await rotate()
      expect(some.status).toBe(1)
      expect(some.stderr).toMatch(nameOf(three))
      expect(some.stderr).not.toMatch(nameOf(one))
      await until('doctor names it', withinMs, async () =>
        (await doctor()).some(({ what }: Json) => nameOf(three).test(what)),
      )
      await until('the others name it', withinMs, () => nameOf(three).test(one.log()))
      expect(await psql('SELECT secret_key, old_key FROM svc.meta')).toBe(`${oldId}|`)
      three = await restart(three, withBoth)

      // A kill after the switch, of the command and of a node.
      let isKilled = false
      const begun = rotate(({ pid }) => {
        void until(
          'it has begun',
          withinMs,
          async () => (await psql('SELECT old_key FROM svc.meta')) === oldId,
        ).then(() => {
          isKilled = true
          process.kill(pid, 'SIGKILL')
        })
      })
      expect([(await begun).status === 0, isKilled]).toEqual([false, true])
      await converse(two, one, 'between')
      three = await restart(three, withBoth, 'SIGKILL')
      for (const secret of [clusterSecret, newSecret])
        expect(await failure(cluster.addNode({ env: { SVC_SECRET_KEY: secret } }))).toMatchObject({
          message: expect.stringMatching(/encrypted/),
        })

      let isOver = false
      const talk = (async () => {
        for (let nth = 0; !isOver; nth++) await converse(one, three, `during ${nth}`)
      })()
      const done = await rotate()
      isOver = true
      await talk
      expect({ ...JSON.parse(done.stdout), stderr: done.stderr }).toMatchObject({
        key_id: newId,
        old_key_id: oldId,
        stderr: '',
      })
      expect(await psql('SELECT secret_key, old_key FROM svc.meta')).toBe(`${newId}|`)
      // In all texts of all tables.
      const dump =
        await psql(`SELECT string_agg(format('SELECT %L FROM svc.%I WHERE %I::text LIKE ''%%svc-sealed:${oldId}%%''', table_name || '.' || column_name, table_name, column_name), ' UNION ')
        FROM information_schema.columns WHERE table_schema = 'svc' AND data_type IN ('text', 'ARRAY')`)
      expect(await psql(dump)).toBe('')
      const sealed = await psql(dump.replaceAll(oldId, newId))
      const places = ['account.token', 'login_flow.qr', 'message.raw', 'outbox_lane.token']
      const ofWebhooks = ['webhook.headers', 'webhook.link_key', 'webhook.secrets']
      expect(sealed.split('\n').sort()).toEqual([...places, ...ofWebhooks])

      // One after another gets the new key alone.
      one = await restart(one, { SVC_SECRET_KEY: newSecret })
      two = await restart(two, { SVC_SECRET_KEY: newSecret }, 'SIGKILL')
      await converse(one, three, 'old and new')
      three = await restart(three, { SVC_SECRET_KEY: newSecret })
      await converse(three, two, 'new alone')
      expect(await failure(cluster.addNode())).toMatchObject({
        message: expect.stringMatching(/another secret key/),
      })
    },
    300_000,
  )
})
