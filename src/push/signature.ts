/** Signatures of Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md). */
import { Buffer } from 'node:buffer'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import type { WebhookSecret } from '../storage/webhooks.ts'

const prefix = 'whsec_'
/** After a rotation the secret of before signs as well for so long. */
export const rotationMs = 24 * 3_600_000

export const newSecret = (): string => `${prefix}${randomBytes(32).toString('base64')}`

/** The headers that sign a body. @param now Unix ms @param id without a dot */
export function signed(
  id: string,
  body: string,
  secrets: readonly WebhookSecret[],
  now: number,
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = String(Math.floor(now / 1000))
  const signatures = secrets
    .filter(({ until }) => until === undefined || until > now)
    .map(({ secret }) => {
      const key = Buffer.from(secret.slice(prefix.length), 'base64')
      return `v1,${nodeCrypto().createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
    })
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') }
}

/** A link in a delivery opens for so long. */
const linkMs = 15 * 60_000

/** What a link leads to: media of a message by its number, or the message as a whole. */
export interface Linked {
  webhook: string
  message_id: string
  item: string
}

const linkSignature = (key: string, { webhook, message_id, item }: Linked, expires: string) =>
  nodeCrypto()
    .createHmac('sha256', key)
    .update(JSON.stringify([webhook, message_id, item, expires]))
    .digest('base64url')

/** Path and query of a link that opens from now on. @param now Unix ms */
export function linkTo(key: string, to: Linked, now: number): string {
  const expires = String(Math.floor((now + linkMs) / 1000))
  const path = [to.webhook, to.message_id, to.item].map(encodeURIComponent).join('/')
  return `/shared/${path}?expires=${expires}&signature=${linkSignature(key, to, expires)}`
}

/** Whether a link was made with that key and still opens. */
export function opens(key: string, to: Linked, expires: string, signature: string, now: number): boolean {
  const right = Buffer.from(linkSignature(key, to, expires))
  const given = Buffer.from(signature)
  return (
    given.length === right.length &&
    nodeCrypto().timingSafeEqual(given, right) &&
    Number(expires) * 1000 > now
  )
}
