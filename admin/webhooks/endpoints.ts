/** Webhooks as their page calls them; apart from the other calls, since the first view needs none of these. */
import { signal } from '@preact/signals'
import type {
  AddedWebhook,
  NewWebhookInput,
  ReplayedWebhook,
  WebhookDelivery,
  WebhookEndpoint,
} from '../../src/model/webhook.ts'
import { part, request } from '../api.ts'

export type { AddedWebhook, NewWebhookInput, ReplayedWebhook, WebhookDelivery, WebhookEndpoint }

/** All of them, oldest first; undefined until they have been asked for. */
export const endpoints = signal<readonly WebhookEndpoint[] | undefined>(undefined)

/** After this the status is asked for again of one that is tried at once. */
const triedMs = 2000

/** @throws ApiError */
export const askEndpoints = (): Promise<WebhookEndpoint[]> => request('GET', '/api/webhooks')

let asked = 0
/** An answer that a later question has overtaken is older than what is there. @throws ApiError */
export async function loadEndpoints(): Promise<void> {
  const mine = ++asked
  const all = await askEndpoints()
  if (mine === asked) endpoints.value = all
}

const at = (id: string, verb = '') => `/api/webhooks/${part(id)}${verb}`
/** The list is asked for anew: what one call changes is seen wherever it shows. */
async function changed<T>(call: Promise<T>): Promise<T> {
  const answer = await call
  await loadEndpoints()
  return answer
}

const replay = (id: string, body: { from: string; dry_run?: true }) =>
  request<ReplayedWebhook>('POST', at(id, '/replay'), body)

/** Each throws `ApiError`. */
export const webhooks = {
  add: (given: NewWebhookInput) => changed(request<AddedWebhook>('POST', '/api/webhooks', given)),
  log: (id: string) => request<WebhookDelivery[]>('GET', at(id, '/log?limit=50')),
  test: (id: string) =>
    changed(
      request<{ success: boolean; status?: number; took_ms: number; detail?: string; code?: string }>(
        'POST',
        at(id, '/test'),
      ),
    ),
  pause: (id: string) => changed(request<WebhookEndpoint>('POST', at(id, '/pause'))),
  async resume(id: string) {
    const answer = await changed(request<WebhookEndpoint>('POST', at(id, '/resume')))
    // What is tried now has an outcome a moment later.
    if (answer.status === 'failing') setTimeout(() => loadEndpoints().catch(() => {}), triedMs)
    return answer
  },
  rotate: (id: string) => changed(request<AddedWebhook>('POST', at(id, '/rotate'))),
  /** @param from id of an event, or an ISO time */
  replay: (id: string, from: string) => changed(replay(id, { from })),
  /** What a replay would be. */
  wouldReplay: (id: string, from: string) => replay(id, { from, dry_run: true }),
  remove: (id: string) => changed(request<{ success: boolean }>('DELETE', at(id))),
}
