/**
 * Signatures of webhook deliveries and of links in them, by Standard Webhooks 1.0.0
 * (github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md).
 */
import { Buffer } from 'node:buffer'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import type { WebhookSecret } from '../storage/webhooks.ts'

const secretPrefix = 'whsec_'
/** After a rotation, the previous secret also signs for this time. */
export const rotationMs = 24 * 3_600_000

export const createSecret = (): string => `${secretPrefix}${randomBytes(32).toString('base64')}`

/**
 * Returns the headers that sign a body, with one signature per valid secret.
 *
 * @param now Unix ms
 * @param id without a dot
 */
export function createSignatureHeaders(
  id: string,
  body: string,
  secrets: readonly WebhookSecret[],
  now: number,
): Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string> {
  const timestamp = String(Math.floor(now / 1000))
  const signatures = secrets
    .filter(({ until }) => until === undefined || until > now)
    .map(({ secret }) => {
      const key = Buffer.from(secret.slice(secretPrefix.length), 'base64')
      return `v1,${nodeCrypto().createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
    })
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') }
}

/** Lifetime of a link in a delivery. */
const linkLifetimeMs = 15 * 60_000

/** Target of a link: one media item of a message, or the whole message. `item` is an index or `message`. */
export interface LinkTarget {
  webhook: string
  message_id: string
  item: string
}

const signTarget = (key: string, { webhook, message_id, item }: LinkTarget, expires: string) =>
  nodeCrypto()
    .createHmac('sha256', key)
    .update(JSON.stringify([webhook, message_id, item, expires]))
    .digest('base64url')

/** Returns path and query of a signed link. @param now Unix ms */
export function createSignedLink(key: string, to: LinkTarget, now: number): string {
  const expires = String(Math.floor((now + linkLifetimeMs) / 1000))
  const path = [to.webhook, to.message_id, to.item].map(encodeURIComponent).join('/')
  return `/shared/${path}?expires=${expires}&signature=${signTarget(key, to, expires)}`
}

/** Whether a link's signature is right and the link has not expired. @param now Unix ms */
export function isLinkValid(
  key: string,
  to: LinkTarget,
  expires: string,
  signature: string,
  now: number,
): boolean {
  const expected = Buffer.from(signTarget(key, to, expires))
  const received = Buffer.from(signature)
  return (
    received.length === expected.length &&
    nodeCrypto().timingSafeEqual(received, expected) &&
    Number(expires) * 1000 > now
  )
}
