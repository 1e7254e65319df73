/** What a callback of MCP Events gets besides events: the challenge before the first one, and the end. */
import { Buffer } from 'node:buffer'
import { parseFields } from '../platform/fields.ts'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { NewWebhook } from '../storage/webhooks.ts'
import { createPoster, postEvent, type WebhookAttemptResult } from './attempt.ts'
import { type CallbackFailure, callbackFailureOf, envelopeIdOf } from './callbacks.ts'

/** A message to a callback that is not an event. */
type Envelope = { type: 'verification'; challenge: string } | { type: 'terminated'; error: object }

async function post(
  webhook: NewWebhook,
  envelope: Envelope,
  signal: AbortSignal,
): Promise<WebhookAttemptResult> {
  using poster = createPoster(webhook)
  const id = envelopeIdOf(envelope.type)
  // Where replies are wanted, the answer is read.
  const sent = { ...webhook, replies: envelope.type === 'verification' }
  return await postEvent(poster, sent, { id, body: JSON.stringify(envelope) }, signal)
}

/** Asks a callback whether it wants the deliveries. @returns why it failed; undefined if it does */
export async function challengeCallback(
  webhook: NewWebhook,
  signal: AbortSignal,
): Promise<CallbackFailure | undefined> {
  const challenge = randomBytes(32).toString('base64url')
  const { code, detail, text = '' } = await post(webhook, { type: 'verification', challenge }, signal)
  if (detail !== undefined) return callbackFailureOf(code, detail)
  return isSameText(String(parseFields(text)?.challenge), challenge) ? undefined : 'challenge_failed'
}

function isSameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && nodeCrypto().timingSafeEqual(a, b)
}

/** Tells a callback that its subscription has ended. Nothing repeats this if it fails. */
export async function sendTerminated(
  webhook: NewWebhook,
  { closing, log }: Pick<Runtime, 'closing' | 'log'>,
): Promise<void> {
  const error = { code: -32024, message: 'Forbidden', data: { reason: 'Access revoked' } }
  const { detail } = await post(webhook, { type: 'terminated', error }, closing).catch(
    (): WebhookAttemptResult => ({ detail: 'svc stopped' }),
  )
  if (detail !== undefined)
    log.info('the end of a subscription was not heard', { webhook: webhook.id, detail })
}
