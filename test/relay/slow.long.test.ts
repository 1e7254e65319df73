/** Callers whose bodies trickle in for ever: each is ended after a while, with a token of a program and without one. */
import { expect } from 'bun:test'
import { given } from '../support/given.ts'
import { until } from '../support/until.ts'
import { maxUploadBytes, withRelay } from './driver.ts'
import { openMany, SlowCall, uploadAddress } from './slow-calls.ts'

given(withRelay)(
  'a call whose body trickles in ends within a minute and a half',
  async ({ t, url, add }) => {
    const program = await add('one')
    const address = await uploadAddress(program, t.bots.get('default')!.user_id, maxUploadBytes)
    const send = `${url}/ilink/bot/sendmessage`
    const kinds = [
      ['an upload', address, undefined, 422],
      ['a call', send, program.token, 422],
      ['an upload to a forged address', address.replace('param=', 'param=x'), undefined, 400],
      ['a call without a token', send, undefined, 200],
    ] as const
    let nth = 0
    using open = await openMany(kinds.length, () => {
      const [, to, token] = kinds[nth++]!
      return SlowCall.open(to, token)
    })
    // The connection of a caller without proof is closed, too.
    const seen = () =>
      open.calls.map(({ isClosed, status }, nth) => [kinds[nth]![0], status, ...(nth > 1 ? [isClosed] : [])])
    const wanted = kinds.map(([name, , , status], nth) => [name, status, ...(nth > 1 ? [true] : [])])
    await until(
      'all are ended',
      90_000,
      () => Bun.deepEquals(seen(), wanted),
      () => JSON.stringify(seen()),
    )
    expect(seen()).toEqual(wanted)
  },
  120_000,
)
