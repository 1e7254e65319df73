/** Callers whose bodies trickle in, with a token of a program and without one: they take places of their own, and others are served. */
import { expect } from 'bun:test'
import { ownBounds } from '../../src/model/shares.ts'
import { given } from '../support/given.ts'
import { until } from '../support/until.ts'
import { withRelay } from './driver.ts'
import { openMany, SlowCall, uploadAddress } from './slow-calls.ts'

const it = given(withRelay)

it('a program with slow bodies has so many of them, and another one is served meanwhile', async ({
  t,
  url,
  add,
}) => {
  const [slow, other] = [await add('slow'), await add('other')]
  const address = await uploadAddress(slow, t.bots.get('default')!.user_id)
  let nth = 0
  using open = await openMany(ownBounds.openCalls + 20, () =>
    nth++ % 2 ? SlowCall.open(address) : SlowCall.open(`${url}/ilink/bot/sendmessage`, slow.token),
  )
  await until(
    'those beyond its bound are refused',
    10_000,
    () => open.calls.filter(({ status }) => status === 429).length === 20,
  )
  expect(open.calls.filter(({ status }) => status === 0)).toHaveLength(ownBounds.openCalls)
  await t.sandbox.say('hello')
  expect(await other.read(1)).toHaveLength(1)
  expect((await other.say('answer')).body.ret).toBe(0)
  expect((await other.upload(new Uint8Array(1000))).status).toBe(200)
})

it('bodies without a token of a program are not read', async ({ t, url, add }) => {
  const program = await add('one')
  const address = new URL(await uploadAddress(program, t.bots.get('default')!.user_id))
  address.searchParams.set('encrypted_query_param', 'forged')
  let nth = 0
  using open = await openMany(300, () =>
    nth++ % 2
      ? SlowCall.open(address.href)
      : SlowCall.open(`${url}/ilink/bot/sendmessage`, nth % 3 ? 'svc_00000000_wrong' : undefined),
  )
  await t.sandbox.say('hello')
  expect(await program.read(1)).toHaveLength(1)
  expect((await program.say('answer')).body.ret).toBe(0)
  await until('all are answered', 20_000, () => open.calls.every(({ status }) => status !== 0))
  // After a hundred of them an address is slowed down.
  const known = [/^HTTP\/1.1 (200|429|503)/, /^HTTP\/1.1 (400|429|503)/]
  expect(open.calls.filter(({ answer }, nth) => !known[nth % 2]!.test(answer))).toEqual([])
  expect(open.calls.slice(0, 2).map(({ status }) => status)).toEqual([200, 400])
})
