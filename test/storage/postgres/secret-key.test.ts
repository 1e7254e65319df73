/** Two secret keys of a store, and what nodes say about each other. */
import { describe, expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { createLog } from '../../../src/platform/log.ts'
import { createKeyRing, createSealer, deriveSecret, sealedWith } from '../../../src/platform/sealing.ts'
import { findDifferences } from '../../../src/storage/postgres/node-list.ts'
import { openPgStorage } from '../../../src/storage/postgres/open.ts'
import { rotateKey } from '../../../src/storage/postgres/rotate.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { failure } from '../../support/failure.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { bot } from '../support.ts'

const other = 'T7bn2pWs9-LkQxYc4VhJm6ZdRfGa0EuK'
const [oldId = '', newId = ''] = [secret, other].map(text => createSealer(text).keyId)
const place = { table: 'account', column: 'token', key: 'b' }

test('a ring opens what either key sealed, and seals with the one that was chosen', async () => {
  const ring = createKeyRing(secret, other)
  const sealed = [createSealer(secret), createSealer(other)].map(one => one.seal('value', place))
  expect(sealed.map(value => ring.open(value, place))).toEqual(['value', 'value'])
  expect([sealedWith(ring.seal('value', place)), ring.keyId, ring.keyIds]).toEqual([
    oldId,
    oldId,
    [oldId, newId],
  ])
  expect([ring.sealWith('0123456789abcdef'), ring.keyId]).toEqual([false, oldId])
  expect([ring.sealWith(newId), ring.keyIds]).toEqual([true, [newId, oldId]])
  expect([sealedWith(ring.seal('value', place)), ring.derive('use')]).toEqual([
    newId,
    deriveSecret(other, 'use'),
  ])
  expect(await failure(Promise.try(() => createKeyRing(other).open(sealed[0]!, place)))).toMatchObject({
    code: 'store_unavailable',
    details: { secret_key_id: oldId },
  })
})

test('nodes that differ are named, by what all must have alike', () => {
  const alike = { version: '1', keys: ['k'], token: 't', maxAgeDays: 30, maxCount: 500 }
  const find = (...nodes: object[]) =>
    findDifferences(nodes.map((node, nth) => ({ ...alike, name: `node${nth}`, ...node }))).map(
      ({ check, problem }) => [check, problem.match(/node\d/g)],
    )
  expect(find({}, {}, { token: undefined }, { keys: ['k'] })).toEqual([])
  expect(find({}, { version: '2' })).toEqual([['versions', ['node0', 'node1']]])
  expect(find({}, { token: 'u' }, {})).toEqual([['tokens', ['node0', 'node2', 'node1']]])
  expect(find({}, { maxCount: 0 }, {})).toEqual([['retention', ['node0', 'node2', 'node1']]])
  expect(find({}, { maxAgeDays: 7 })).toEqual([['retention', ['node0', 'node1']]])
  expect(find({ keys: ['n', 'k'] }, { keys: ['k', 'n'] }, {})).toEqual([['keys', ['node2']]])
  expect(JSON.stringify(find({ token: 'secret' }, {}))).not.toContain('secret')
})

test.skipIf(!isPostgresThere())(
  'a node with another token is named by the others, which know no token of it',
  async () => {
    await using database = await newDatabase()
    const { url } = database
    const lines: string[] = []
    const log = createLog('WARNING', line => void lines.push(line))
    const open = (name: string) =>
      openPgStorage({ url, secret, clock: systemClock, log, name, maxAgeDays: 0, maxCount: 0 })
    const [a, b] = [await open('a'), await open('b')]
    try {
      a.node.setUrl('http://a.example', 'token of a')
      b.node.setUrl('http://b.example', 'token of b')
      await until('both say so', 30_000, () => lines.filter(line => /\ba\b.*\bb\b/.test(line)).length >= 2)
      expect(lines.join('')).not.toMatch(/token of/)
    } finally {
      await a.close()
      await b.close()
    }
  },
)

describe.skipIf(!isPostgresThere())('a new key', () => {
  test('is used by all, or by none: who has only one of the two is refused until nothing is left under the old one', async () => {
    await using database = await newDatabase()
    const { url } = database
    // No waits: nothing writes meanwhile.
    const clock = { ...systemClock, sleep: () => new Promise<void>(resolve => setImmediate(resolve)) }
    const rotate = () => rotateKey({ url, oldSecret: secret, newSecret: other, clock })
    const open = (own: { secret: string; newSecret?: string }, name = 'a') =>
      openPgStorage({
        url,
        ...own,
        clock: systemClock,
        log: createLog('ERROR'),
        name,
        maxAgeDays: 0,
        maxCount: 0,
      })
    const [a, b] = [await open({ secret, newSecret: other }), await open({ secret }, 'b')]
    await a.state.sessions.save('work', bot('work'))
    expect(await failure(rotate())).toMatchObject({
      code: 'store_unavailable',
      details: { nodes: ['b'] },
    })
    await b.close()
    expect(await failure(open({ secret: other }))).toMatchObject({
      code: 'store_unavailable',
      details: { secret_key_id: oldId },
    })
    expect(await rotate()).toEqual({ old_key_id: oldId, key_id: newId, values: 1 })
    // Once more there is nothing to do.
    expect(await rotate()).toMatchObject({ values: 0 })
    expect(await failure(open({ secret }))).toMatchObject({
      code: 'store_unavailable',
      details: { secret_key_id: newId },
    })
    const c = await open({ secret: other })
    expect((await c.state.sessions.get('work'))?.bot?.token).toBe(bot('work').token)
    // What it seals from now on, the first one opens.
    await c.state.sessions.save('sales', bot('sales'))
    expect((await a.state.sessions.get('sales'))?.bot?.token).toBe(bot('sales').token)
    await Promise.all([a.close(), c.close()])
  }, 60_000)
})
