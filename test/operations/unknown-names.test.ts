/** A name that nobody has is an error of every operation that asks for one that is there: an empty answer would look true. */
import { afterAll, describe, expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { isSvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { invoke } from '../../src/operations/gate.ts'
import { operations } from '../../src/operations/operations.ts'
import { silentLog } from '../../src/platform/log.ts'
import { withGateway } from '../support/gateway.ts'

const t = await withGateway()
await t.gateway.topics.add(owner, { name: 'home', to: ['a@im.wechat'] })
afterAll(() => t[Symbol.asyncDispose]())

const naming = ['session', 'user', 'user_id', 'to']
/** What an operation is given besides the name: all that it needs, and what makes it look for the name. */
const known: Readonly<Record<string, unknown>> = {
  ...{ session: 'default', to: 'a@im.wechat', user: 'a@im.wechat', user_id: 'a@im.wechat', name: 'Mum' },
  ...{ topic: 'home', text: 'x', limit: 5, typing: true, up_to: 1, url: 'https://example.com/' },
  ...{ known: true, count: 1, consumer: 'reader', prompt: 'go', when: 'in 2h', choices: ['yes', 'no'] },
  ...{ type: 'message.received', secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' },
}
/**
 * A session that is yet to be logged in is named there too, or one that is gone since the subscription was made. The relay
 * sends for its clients alone.
 */
const takesAny = ['follow_login', 'forget_login', 'unsubscribe_events', 'relay_send']

const named = operations
  .filter(({ name }) => !takesAny.includes(name))
  .flatMap(one => naming.filter(key => key in one.input.properties).map(key => [one.name, key, one] as const))
  // The audit log has lines about failed calls with such a name.
  .filter(([name, key]) => name !== 'list_audit' || key !== 'session')

describe('an unknown name', () => {
  test.each(named)('%s, in %s', async (_name, key, { inputSchema, ...one }) => {
    const { properties = {}, required = [] } = inputSchema
    const given = Object.entries(known).filter(
      ([other]) => required.includes(other) || (other in properties && !naming.includes(other)),
    )
    const named = (other: string, name: unknown) => (properties[other]?.type === 'array' ? [name] : name)
    const input = {
      ...Object.fromEntries(
        given.map(([other, value]) => [other, naming.includes(other) ? named(other, value) : value]),
      ),
      ...(properties.timeout && { timeout: properties.timeout.minimum ?? 0 }),
      [key]: named(key, 'nobody'),
    }
    const error = await invoke(one, t.gateway, input, createDirectCall(), silentLog).then(
      output => ({ output }),
      (error: unknown) => error,
    )
    if (!isSvcError(error)) throw new Error(`it was answered: ${JSON.stringify(error)}`)
    if (key === 'session') {
      expect([error.code, error.details]).toEqual(['session_not_found', { sessions: ['default'] }])
      expect(error.message).toContain('nobody')
    } else
      expect([error.code, error.details?.errors]).toEqual([
        'invalid_arguments',
        [expect.objectContaining({ field: key })],
      ])
  })
})
