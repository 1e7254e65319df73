/**
 * Programs of the relay that log in by themselves, as with WeChat: one asks for a code, and gets a number with it; the owner types
 * the number that the program shows; then the program gets its token, once. One program at a time, for all nodes. Callers that
 * ask have proved nothing: what they may store is bounded, and nobody displaces another.
 */
import type { LoggedIn } from '../ilink/server.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import { owner, type Principal } from '../model/principal.ts'
import { sessionKeyOf } from '../model/session.ts'
import { networkOf } from '../platform/address.ts'
import type { Clock } from '../platform/clock.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { RelayAsk, RelayLogin } from '../storage/relays.ts'
import type { SessionStore } from '../storage/state.ts'
import type { Store } from '../storage/store.ts'
import type { Keys } from './keys.ts'
import { hashOf, isSameHash } from './secret.ts'

export interface RelayLoginPorts {
  store: Pick<Store, 'audit' | 'relays'>
  sessions: Pick<SessionStore, 'list'>
  keys: Pick<Keys, 'get' | 'rotate'>
  clock: Clock
}

const openMs = 10 * 60_000
const askMs = 5 * 60_000
const [maxAsks, maxWrong] = [3, 3]
/** A waiting call looks again this often, and is answered after that time. */
const [lookEveryMs, holdMs] = [1000, 5000]

/** Whether a secret is the one with that hash. */
const isSecret = (secret: string, hash: string): boolean => isSameHash(hashOf(secret), hash)

export class RelayLogins extends RoomPart<RelayLoginPorts> {
  /** Lets the program of a key log in. @returns until when @throws SvcError `forbidden` while another one may */
  async open(key: string, base_url: string): Promise<number> {
    const { clock, store } = this.ports
    for (;;) {
      const stored = await store.relays.readLogin()
      if (await this.find())
        throw new SvcError('forbidden', 'another program may log in now, one at a time', {
          hint: 'Agree to its login, remove it with svc relay remove NAME, or wait: it ends after ten minutes.',
        })
      const until = clock.now() + openMs
      const login = { key, base_url, until, asks: [], version: stored?.version ?? '' }
      if (await store.relays.writeLogin(login)) return until
    }
  }

  /** Returns the open login, with those who ask now. */
  async find(): Promise<RelayLogin | undefined> {
    const { clock, store } = this.ports
    const login = await store.relays.readLogin()
    const now = clock.now()
    if (!login || login.until <= now || !(await store.relays.get(login.key))) return undefined
    return { ...login, asks: login.asks.filter(({ until }) => until > now) }
  }

  /** Returns a code for a program at an address, and its number; `full` if too many ask; undefined if none may log in. */
  async ask(address: string | undefined): Promise<{ code: string; number: string } | 'full' | undefined> {
    const code = randomBytes(32).toString('hex')
    const network = networkOf(address ?? '')
    let number = ''
    let isFull = false
    const login = await this.#change(({ asks, ...login }) => {
      isFull =
        asks.length >= maxAsks || asks.some(one => one.agreed || networkOf(one.address ?? '') === network)
      if (isFull) return undefined
      do number = String(nodeCrypto().randomInt(1_000_000)).padStart(6, '0')
      while (asks.some(one => one.number === number))
      const until = this.ports.clock.now() + askMs
      return { ...login, asks: [...asks, { number, hash: hashOf(code), address, until, wrong: 0 }] }
    })
    return login ? { code, number } : isFull ? 'full' : undefined
  }

  /** Waits some seconds for the owner. @returns the login, to one call; undefined if the code is unknown, refused, over or used */
  async poll(code: string, address: string | undefined, signal: AbortSignal) {
    const { clock, store } = this.ports
    const deadline = clock.monotonic() + holdMs
    for (;;) {
      const login = await this.find()
      const ask = login?.asks.find(({ hash }) => isSecret(code, hash))
      if (!login || !ask) return undefined
      if (ask.agreed && (await store.relays.writeLogin({ ...login, until: 0, asks: [] })))
        return this.#handOut(login, address)
      if (signal.aborted || clock.monotonic() >= deadline) return 'wait'
      if (!ask.agreed) await clock.sleep(lookEveryMs, signal)
    }
  }

  async #handOut(
    { base_url, key: id }: RelayLogin,
    address: string | undefined,
  ): Promise<LoggedIn | undefined> {
    const { clock, keys, sessions, store } = this.ports
    const client = await store.relays.get(id)
    if (!client) return undefined
    const records = await sessions.list()
    const { bot } = records.find(({ name }) => sessionKeyOf(name) === sessionKeyOf(client.session)) ?? {}
    const line = { at: clock.now(), principal: `key:${id}`, operation: 'relay_login', outcome: 'done' }
    await store.audit.add(withoutUndefined({ ...line, address }))
    const { key: token } = await keys.rotate(id, 0, owner)
    return { token, base_url, bot_id: bot?.bot_id ?? '', user_id: bot?.user_id ?? '' }
  }

  /** Agrees to the program that shows a number. @throws SvcError `not_found` if none does: the third time, all are refused */
  async allow(by: Principal, number: string): Promise<{ name: string; address?: string }> {
    const { key } = (await this.find()) ?? {}
    if (key === undefined) throw unknownError()
    const { name } = await this.ports.keys.get(key, by).catch(error => {
      throw isSvcError(error, 'not_found') ? unknownError() : error
    })
    let right: RelayAsk | undefined
    await this.#change(login => {
      right = login.key === key ? login.asks.find(one => isSecret(number, hashOf(one.number))) : undefined
      const counted = login.asks.map(one => ({ ...one, wrong: one.wrong + 1 }))
      const asks = right ? [{ ...right, agreed: true }] : counted.filter(({ wrong }) => wrong < maxWrong)
      return login.key === key ? { ...login, asks } : undefined
    })
    if (!right) throw unknownError()
    return withoutUndefined({ name, address: right.address })
  }

  /** Stores what `to` returns for the open login, unless that is undefined. @returns what was stored */
  async #change(to: (login: RelayLogin) => RelayLogin | undefined): Promise<RelayLogin | undefined> {
    for (;;) {
      const login = await this.find()
      const next = login && to(login)
      if (!next || (await this.ports.store.relays.writeLogin(next))) return next
    }
  }
}

const unknownError = () =>
  new SvcError('not_found', 'no program that asks to log in shows this number', {
    hint: 'Type the number that the program shows. After three wrong ones it must begin its login again.',
  })
