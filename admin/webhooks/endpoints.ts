/** The calls for webhooks. A module of its own, because the first view needs none of them. */
import { signal } from '@preact/signals'
import type { WebhookEndpoint } from '../../src/model/webhook.ts'
import { call, type Input } from '../api.ts'

export type {
  AddedWebhook,
  NewWebhookInput,
  ReplayedWebhook,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookTest,
} from '../../src/model/webhook.ts'

/** All webhooks, oldest first; undefined until they are loaded. */
export const endpoints = signal<readonly WebhookEndpoint[] | undefined>(undefined)

/** When to load the status again after a webhook was resumed. */
const triedMs = 2000

/** @throws ApiError */
export const askEndpoints = () => call('list_webhooks', {})

let newestRequest = 0
/** Loads the list. Drops an answer that a later request has overtaken. @throws ApiError */
export async function loadEndpoints(): Promise<void> {
  const mine = ++newestRequest
  const all = await askEndpoints()
  if (mine === newestRequest) endpoints.value = all
}

/** Waits for a change and loads the list again, so that every page shows it. */
async function changed<T>(asked: Promise<T>): Promise<T> {
  const answer = await asked
  await loadEndpoints()
  return answer
}

/** Each throws `ApiError`. */
export const webhooks = {
  add: (given: Input<'add_webhook'>) => changed(call('add_webhook', given)),
  log: (id: string) => call('list_webhook_deliveries', { id, limit: 50 }),
  /** The attempts at one event, with their answers; the newest has more. */
  attemptsAt: (id: string, event: string) => call('list_webhook_deliveries', { id, event }),
  sendAgain: (id: string, event: string) => changed(call('replay_webhook', { id, from: event, only: true })),
  test: (id: string) => changed(call('test_webhook', { id })),
  pause: (id: string) => changed(call('pause_webhook', { id })),
  async resume(id: string) {
    const answer = await changed(call('resume_webhook', { id }))
    // The service tries to deliver now; the result comes a moment later.
    if (answer.status === 'failing') setTimeout(() => loadEndpoints().catch(() => {}), triedMs)
    return answer
  },
  rotate: (id: string) => changed(call('rotate_webhook', { id })),
  /** @param from an ISO time */
  replay: (id: string, from: string) => changed(call('replay_webhook', { id, from })),
  /** What a replay would deliver. */
  wouldReplay: (id: string, from: string) => call('replay_webhook', { id, from, dry_run: true }),
  remove: (id: string) => changed(call('remove_webhook', { id })),
}
