/**
 * The key of a part of a program: a narrower key that the program makes with its own. It ends within minutes unless it is
 * used, and when the program closes svc.
 */
import type { AddedKey, Me } from '../model/key.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { PartGrant } from './api.ts'
import type { Http } from './http.ts'
import { routes } from './routes.ts'

/** How long a key lasts. */
const lastsMs = 30 * 60_000
/** A key that is older is replaced. */
const freshMs = lastsMs / 2
/** How long the end of a program waits. */
const revokeMs = 1500

interface KeyPorts {
  /** Calls with the key of the program. */
  http: Http
  grant: PartGrant
}

export class PartKey extends RoomPart<KeyPorts> {
  /** The keys that may not have ended yet, the newest last. */
  readonly #made: { readonly key: Promise<AddedKey>; readonly at: number }[] = []

  /** Returns a key that is still valid for some minutes. */
  async get(): Promise<string> {
    // A machine that slept has no key.
    const now = Date.now()
    const newest = this.#made.at(-1)
    if (newest && now - newest.at < freshMs) return (await newest.key).key
    const made = { key: this.#make(), at: now }
    this.#made.push(made)
    // The next call tries again.
    made.key.catch(() => this.#made.splice(this.#made.indexOf(made), 1))
    while (this.#made[0] && now - this.#made[0].at > lastsMs) this.#made.shift()
    return (await made.key).key
  }

  async revoke(): Promise<void> {
    const plan = { isRepeatable: true, signal: AbortSignal.timeout(revokeMs) }
    const ending = this.#made.splice(0).map(async ({ key }) => {
      await this.ports.http.json(routes.groups.keys.revoke, { id: (await key).id }, plan)
    })
    await Promise.allSettled(ending)
  }

  async #make(): Promise<AddedKey> {
    const { can, name, users } = this.ports.grant
    const { headers, value: own } = await this.ports.http.answer<Me>(routes.calls.me, {})
    // The clock of the service counts.
    const now = Date.parse(headers.get('date') ?? '') || Date.now()
    return await this.ports.http.json<AddedKey>(routes.groups.keys.add, {
      // Two keys cannot have the same name.
      name: `${name} ${createId().slice(0, 8)}`.slice(-64),
      can,
      ...(users && { users }),
      expires_at: Math.min(now + lastsMs, own.expires_at ?? Number.POSITIVE_INFINITY),
    })
  }
}

/** Returns random words. Node 18 and a page without https have no UUIDs. */
export const createId = (): string =>
  globalThis.crypto?.randomUUID?.() ??
  Array.from({ length: 4 }, () => Math.random().toString(36).slice(2, 10).padEnd(8, '0')).join('-')
