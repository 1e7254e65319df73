/** Programs that speak WeChat's protocol to svc: added with a key of their own, listed, and ended with it. */
import { parseHttpUrl } from '../config/values.ts'
import type { Call } from '../model/call.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { NewKeyInput } from '../model/key.ts'
import { keyIdOf, type Principal } from '../model/principal.ts'
import { type AddedRelay, type NewRelayInput, type Relay, toRelayAnswers } from '../model/relay.ts'
import { normalizeSessionName, sessionKeyOf } from '../model/session.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { RoomPart } from '../platform/runtime.ts'
import { type RelayFacts, relaySettingsOf } from '../setup/relay-programs.ts'
import type { ListedRelayClient, RelayLogin } from '../storage/relays.ts'
import type { SessionStore } from '../storage/state.ts'
import type { Store } from '../storage/store.ts'
import type { Keys } from './keys.ts'
import type { RelayLogins } from './relay-logins.ts'

export interface RelayPorts {
  store: Pick<Store, 'agents' | 'backlog' | 'keys' | 'relays' | 'webhooks'>
  sessions: Pick<SessionStore, 'list'>
  keys: Pick<Keys, 'add' | 'get' | 'revoke'>
  logins: Pick<RelayLogins, 'open' | 'find'>
  /** Returns the address under which programs reach svc. */
  findUrl(): Promise<string>
}

/** Messages that are counted. */
const maxCounted = 10_000

export class RelayClients extends RoomPart<RelayPorts> {
  /**
   * Makes a key for a program, and its place at the end of the log: it gets every message from now on. Only this answer has
   * the token.
   *
   * @throws SvcError `invalid_arguments`, `not_connected`, `session_not_found`, `forbidden`, as `Keys.add`
   */
  async add(by: Principal, input: NewRelayInput, call?: Pick<Call, 'onDelivered'>): Promise<AddedRelay> {
    const { keys, logins, sessions, store } = this.ports
    if (input.allow_login && input.for) throw badArgument('for', 'expected none with allow_login')
    const base_url = parseHttpUrl(input.url ?? (await this.ports.findUrl()))
    if (base_url === undefined) throw badArgument('url', 'expected an http or https URL')
    const records = (await sessions.list()).filter(
      ({ bot }) => bot && by.grant?.bots?.includes(bot.bot_id) !== false,
    )
    if (input.session === undefined && records.length !== 1)
      throw records.length === 0
        ? new SvcError('not_connected', 'No account is logged in')
        : badArgument('session', `expected a session, since ${records.length} are logged in`)
    const wanted = normalizeSessionName(input.session ?? records[0]!.name)
    const record = records.find(({ name }) => sessionKeyOf(name) === sessionKeyOf(wanted))
    const session = record?.name ?? wanted
    const others = await this.#listOthers(session, by)
    const users = input.users ?? by.grant?.users
    const own: NewKeyInput = { name: input.name, can: ['relay'], sessions: [session] }
    if (users) own.users = [...users]
    const { created_at, id, key: token } = await keys.add(own, by, call)
    await store.relays
      .add({ key: id, session, answers: toRelayAnswers(input.answers ?? 'all'), created_at })
      .then(() => (input.allow_login ? logins.open(id, base_url) : undefined))
      .catch(async error => {
        await keys.revoke(id, by)
        throw error
      })
    const { bot_id = '', user_id } = record?.bot ?? {}
    const facts: RelayFacts = { token, base_url, cdn_url: `${base_url}/ilink/c2c`, bot_id, user_id }
    return withoutUndefined({
      ...(await this.#show((await this.#find(id))!, await logins.find())),
      ...facts,
      ...(input.allow_login && { token: undefined }),
      others,
      settings: input.for && relaySettingsOf(input.for, facts),
    })
  }

  /** Lists the programs, oldest first: for a key those whose keys it made. */
  async list(by: Principal): Promise<Relay[]> {
    const clients = await this.ports.store.relays.list()
    const own =
      keyIdOf(by) === undefined ? undefined : await this.ports.store.keys.list({ madeBy: keyIdOf(by) })
    const visible = own ? clients.filter(({ key }) => own.some(({ id }) => id === key)) : clients
    const login = await this.ports.logins.find()
    return Promise.all(visible.map(client => this.#show(client, login)))
  }

  /** Ends a program, by its name or the id of its key. @throws SvcError `not_found` */
  async remove(by: Principal, nameOrId: string): Promise<Relay> {
    const { keys } = this.ports
    const hint = 'svc relay list, or GET /relays, shows the names.'
    const unknown = new SvcError('not_found', 'no program of the relay has this name or id', { hint })
    const key = await keys.get(nameOrId, by).catch(error => {
      throw isSvcError(error, 'not_found') ? unknown : error
    })
    const client = await this.#find(key.id)
    if (!client) throw unknown
    const shown = await this.#show(client)
    await keys.revoke(client.key, by)
    return shown
  }

  async #find(id: string): Promise<ListedRelayClient | undefined> {
    return (await this.ports.store.relays.list()).find(({ key }) => key === id)
  }

  async #show(
    { answers, consumer, key, source: _, ...client }: ListedRelayClient,
    login?: RelayLogin,
  ): Promise<Relay> {
    const { backlog, keys } = this.ports.store
    const own = login?.key === key && {
      login_until: login.until,
      asks: login.asks.map(({ address, until }) => withoutUndefined({ address, until })),
    }
    const shown = { id: key, ...client, answers: String(answers) as Relay['answers'], ...own }
    if (answers === 'called') return shown
    const scope = (await keys.get(key))?.grant ?? {}
    return { ...shown, unread: await backlog.countWaiting(consumer, { limit: maxCounted, scope }) }
  }

  /** Returns what answers each message of a session. */
  async #listOthers(session: string, by: Principal): Promise<AddedRelay['others']> {
    const { agents, relays, webhooks } = this.ports.store
    const is = (name: string | undefined) =>
      name !== undefined && sessionKeyOf(name) === sessionKeyOf(session)
    const [running, endpoints, clients] = await Promise.all([
      agents.listRunning(session),
      webhooks.list(),
      relays.list(),
    ])
    const answering = endpoints.filter(
      one => one.replies && !one.disabled && (one.session === undefined || is(one.session)),
    )
    const replying = clients.filter(one => one.answers !== 'called' && is(one.session))
    const others = [
      ...running.map(name => ({ kind: 'agent' as const, name })),
      ...answering.map(({ id: name }) => ({ kind: 'webhook' as const, name })),
      ...replying.map(({ name }) => ({ kind: 'relay' as const, name })),
    ]
    return by.grant ? others.map(({ kind }) => ({ kind })) : others
  }
}
