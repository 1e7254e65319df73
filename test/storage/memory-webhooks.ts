/** Webhook endpoints of the engine in memory. */
import { sessionKey } from '../../src/model/session.ts'
import { placeOf } from '../../src/storage/events.ts'
import {
  type Conversation,
  triesKept,
  type Webhook,
  type WebhookLane,
  type Webhooks,
  type WebhookTry,
} from '../../src/storage/webhooks.ts'

interface Kept {
  webhook: Webhook
  lanes: Map<string, WebhookLane>
  tries: WebhookTry[]
}

const keyOf = ({ session, user }: Conversation) => JSON.stringify([session, user])

export const webhookTables = (): Map<string, Kept> => new Map()

type Open = () => { webhooks: Map<string, Kept>; wake(): void }

export class MemoryWebhooks implements Webhooks {
  readonly #open: Open

  constructor(open: Open) {
    this.#open = open
  }

  #change(id: string, work: (kept: Kept) => void): boolean {
    const { webhooks, wake } = this.#open()
    const kept = webhooks.get(id)
    if (!kept) return false
    work(kept)
    wake.call(this.#open())
    return true
  }

  list = async () => structuredClone([...this.#open().webhooks.values()].map(({ webhook }) => webhook))

  add: Webhooks['add'] = async given => {
    const webhook = {
      ...structuredClone(given),
      ...{ paused: false, epoch: 0, tries: { done: 0, failed: 0, gave_up: 0 } },
    }
    this.#open().webhooks.set(given.id, { webhook, lanes: new Map(), tries: [] })
    this.#open().wake()
  }

  change: Webhooks['change'] = async (id, change) =>
    this.#change(id, ({ webhook }) => Object.assign(webhook, structuredClone(change)))

  rewind: Webhooks['rewind'] = async (id, position, replayed) =>
    this.#change(id, ({ webhook, lanes }) => {
      for (const [key, lane] of lanes) if (placeOf(lane.position) >= placeOf(position)) lanes.delete(key)
      Object.assign(webhook, { replayed, position, epoch: webhook.epoch + 1 })
    })

  remove: Webhooks['remove'] = async id =>
    this.#change(id, () => {
      this.#open().webhooks.delete(id)
    })

  renameSession(oldName: string, newName: string): void {
    const isIt = ({ session }: { session?: string }) =>
      session !== undefined && sessionKey(session) === sessionKey(oldName)
    for (const kept of this.#open().webhooks.values()) {
      if (isIt(kept.webhook)) kept.webhook.session = newName
      for (const lane of kept.lanes.values()) if (isIt(lane)) lane.session = newName
      kept.lanes = new Map([...kept.lanes.values()].map(lane => [keyOf(lane), lane]))
      kept.webhook.epoch += 1
    }
  }

  readonly progress: Webhooks['progress'] = {
    lanes: async id => structuredClone([...(this.#open().webhooks.get(id)?.lanes.values() ?? [])]),
    keep: async (id, { epoch, position, lanes, ended, tries, health }) => {
      const kept = this.#open().webhooks.get(id)
      if (kept?.webhook.epoch !== epoch) return false
      for (const lane of lanes) kept.lanes.set(keyOf(lane), structuredClone(lane))
      for (const one of ended) kept.lanes.delete(keyOf(one))
      const { last_success_at = kept.webhook.last_success_at } = health
      const counts = { ...kept.webhook.tries }
      for (const one of tries) {
        counts[one.outcome] += 1
        kept.tries.push({ ...one })
        const like = kept.tries.filter(({ outcome }) => outcome === one.outcome)
        if (like.length > triesKept[one.outcome]) kept.tries.splice(kept.tries.indexOf(like[0]!), 1)
      }
      const { failing_since, last_error } = health
      Object.assign(kept.webhook, { position, last_success_at, failing_since, last_error, tries: counts })
      return true
    },
    tries: async (id, limit, outcome) =>
      (this.#open().webhooks.get(id)?.tries ?? [])
        .filter(one => outcome === undefined || one.outcome === outcome)
        .toReversed()
        .slice(0, limit),
  }
}
