/** Webhooks as their page calls them; apart from the other calls, since the first view needs none of these. */
import { signal } from '@preact/signals'
import type { WebhookEndpoint } from '../../src/model/webhook.ts'
import { call, type Input } from '../api.ts'

export type {
  AddedWebhook,
  NewWebhookInput,
  ReplayedWebhook,
  WebhookDelivery,
  WebhookEndpoint,
} from '../../src/model/webhook.ts'

/** All of them, oldest first; undefined until they have been asked for. */
export const endpoints = signal<readonly WebhookEndpoint[] | undefined>(undefined)

/** After this the status is asked for again of one that is tried at once. */
const triedMs = 2000

/** @throws ApiError */
export const askEndpoints = () => call('list_webhooks', {})

let asked = 0
/** An answer that a later question has overtaken is older than what is there. @throws ApiError */
export async function loadEndpoints(): Promise<void> {
  const mine = ++asked
  const all = await askEndpoints()
  if (mine === asked) endpoints.value = all
}

/** The list is asked for anew: what one call changes is seen wherever it shows. */
async function changed<T>(asked: Promise<T>): Promise<T> {
  const answer = await asked
  await loadEndpoints()
  return answer
}

/** Each throws `ApiError`. */
export const webhooks = {
  add: (given: Input<'add_webhook'>) => changed(call('add_webhook', given)),
  log: (id: string) => call('webhook_log', { id, limit: 50 }),
  test: (id: string) => changed(call('test_webhook', { id })),
  pause: (id: string) => changed(call('pause_webhook', { id })),
  async resume(id: string) {
    const answer = await changed(call('resume_webhook', { id }))
    // What is tried now has an outcome a moment later.
    if (answer.status === 'failing') setTimeout(() => loadEndpoints().catch(() => {}), triedMs)
    return answer
  },
  rotate: (id: string) => changed(call('rotate_webhook', { id })),
  /** @param from id of an event, or an ISO time */
  replay: (id: string, from: string) => changed(call('replay_webhook', { id, from })),
  /** What a replay would be. */
  wouldReplay: (id: string, from: string) => call('replay_webhook', { id, from, dry_run: true }),
  remove: (id: string) => changed(call('remove_webhook', { id })),
}
