/** Signatures, judged by the package that receivers verify with. */
import { expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import {
  createSecret,
  createSignatureHeaders,
  createSignedLink,
  isLinkValid,
  rotationMs,
} from '../../src/push/signature.ts'
import { rotateSecrets } from '../../src/storage/webhooks.ts'

const body = '{"type":"message.received","data":{"text":"你好 🙂"}}'

test('a receiver with the standardwebhooks package verifies it, with each of two secrets, and no other', () => {
  const secrets = [createSecret(), createSecret()].map(secret => ({ secret }))
  const headers = createSignatureHeaders('abc-1', body, secrets, Date.now())
  for (const { secret } of secrets)
    expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body))
  expect(() => new Webhook(createSecret()).verify(body, headers)).toThrow()
  expect(() => new Webhook(secrets[0]!.secret).verify(`${body} `, headers)).toThrow()
})

test('the vector of the specification’s own tests', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const headers = createSignatureHeaders(
    'msg_p5jXN8AQM9LWM0D4loKWxJek',
    '{"test": 2432232314}',
    [{ secret }],
    1_614_265_330_000,
  )
  expect(headers['webhook-timestamp']).toBe('1614265330')
  expect(headers['webhook-signature']).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

test('a secret is 32 random bytes', () => {
  const secret = createSecret()
  expect(secret).toMatch(/^whsec_/)
  expect(Buffer.from(secret.slice(6), 'base64')).toHaveLength(32)
  expect(createSecret()).not.toBe(secret)
})

test('after a rotation the secret of before signs as well, for a day', () => {
  const now = Date.now()
  const [old, fresh] = [createSecret(), createSecret()]
  const secrets = rotateSecrets([{ secret: old }], { secret: fresh, until: now + rotationMs })
  const verifies = (secret: string, at: number) => {
    const headers = createSignatureHeaders('a-1', body, secrets, at)
    return headers['webhook-signature']
      .split(' ')
      .includes(createSignatureHeaders('a-1', body, [{ secret }], at)['webhook-signature'])
  }
  expect([old, fresh].map(secret => verifies(secret, now + rotationMs - 1))).toEqual([true, true])
  expect([old, fresh].map(secret => verifies(secret, now + rotationMs))).toEqual([false, true])
  expect(rotateSecrets(secrets, { secret: createSecret(), until: now + rotationMs })).toHaveLength(2)
})

test('a link opens what it was made for, for 15 minutes, and nothing else', () => {
  const now = 1_800_000_000_000
  const to = { webhook: 'wh_1', message_id: 'bot:77/x', item: '0' }
  const url = new URL(createSignedLink('key', to, now), 'http://svc')
  expect(url.pathname.split('/').slice(2).map(decodeURIComponent)).toEqual(['wh_1', 'bot:77/x', '0'])
  const { expires = '', signature = '' } = Object.fromEntries(url.searchParams)
  const ask = (
    key: string,
    what: typeof to,
    more: { expires?: string; signature?: string; at?: number } = {},
  ) => isLinkValid(key, what, more.expires ?? expires, more.signature ?? signature, more.at ?? now)
  expect(ask('key', to)).toBe(true)
  expect(ask('key', to, { at: now + 15 * 60_000 - 1000 })).toBe(true)
  expect(ask('key', to, { at: now + 15 * 60_000 })).toBe(false)
  expect(ask('other', to)).toBe(false)
  for (const field of ['webhook', 'message_id', 'item'] as const)
    expect(ask('key', { ...to, [field]: '1' })).toBe(false)
  expect(ask('key', to, { expires: String(Number(expires) + 1) })).toBe(false)
  expect(ask('key', to, { signature: `${signature}A` })).toBe(false)
})
