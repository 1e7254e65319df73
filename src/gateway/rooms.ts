/**
 * Opens the rooms of a gateway. A room is a folder of `src` (see `src/README.md`, Rooms). Each room gets what
 * it needs from the rooms opened before it.
 */
import { Accounts } from '../accounts/accounts.ts'
import { Invitations } from '../accounts/invitations.ts'
import { Logins } from '../accounts/logins.ts'
import { findRoute } from '../accounts/route.ts'
import { Users } from '../accounts/users.ts'
import { findServiceUrl } from '../config/notes.ts'
import type { Config } from '../config.ts'
import type { Upstream } from '../ilink/api.ts'
import { Media } from '../media/media.ts'
import type { MediaUpstream } from '../media/ports.ts'
import type { Scope } from '../model/access.ts'
import { createDirectCall } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { parsePrincipal } from '../model/principal.ts'
import { quotaPerInbound, windowMs } from '../model/session.ts'
import { shares } from '../model/shares.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { requestPermits as permits } from '../platform/permits.ts'
import { type Runtime, withLogName } from '../platform/runtime.ts'
import type { Callbacks } from '../push/callbacks.ts'
import type { WebhookSenderPorts } from '../push/courier.ts'
import { WebhookDispatcher } from '../push/delivery.ts'
import type { ResolveTarget } from '../push/events.ts'
import { Feed } from '../push/feed.ts'
import { SessionEventWriter } from '../push/sessions.ts'
import { createSignedLink } from '../push/signature.ts'
import { Subscriptions } from '../push/subscriptions.ts'
import { Webhooks } from '../push/webhooks.ts'
import { Inbox } from '../receive/inbox.ts'
import { OneShot } from '../receive/one-shot.ts'
import { Poller } from '../receive/poller.ts'
import { PollingRole } from '../receive/polling-role.ts'
import { TokenCheck } from '../receive/token-check.ts'
import { Outbox } from '../send/outbox.ts'
import { Sender } from '../send/send.ts'
import { Worker } from '../send/worker.ts'
import { invitationStatusOf } from '../storage/invitations.ts'
import { familyOf, hasKeyEnded, listBelow, topOf } from '../storage/keys.ts'
import { type BulletinPorts, Bulletins } from '../topics/bulletins.ts'
import { type TopicPorts, Topics } from '../topics/topics.ts'
import { createBackupProcess } from './backup-process.ts'
import { Backups } from './backups.ts'
import type { Directory, GatewayOptions } from './foundations.ts'
import type { createTargetResolver } from './meant.ts'

/** Longest wait of a send for its slot. */
const sendPatienceMs = 30_000

/** Opens receiving: WeChat → store → readers. */
export function openReceive(
  { oneShot: isOneShot }: GatewayOptions,
  directory: Directory,
  upstream: Upstream,
  runtime: Runtime,
) {
  const { leases, shared, state, store, views } = directory
  const { sessions } = state
  const { bus } = runtime
  const ingest: Directory['ingest'] = async batch => {
    const ingested = await directory.ingest(batch)
    if (batch.messages.length > 0) bus.notify('committed', { ...batch, rows: ingested.rows })
    for (const [nth, row] of ingested.rows.entries())
      if (row !== 'duplicate') bus.notify('received', batch.messages[nth]!.msg_type)
    return ingested
  }
  const poller = new Poller(
    { upstream, sessions, ingest, permits: permits.polls },
    withLogName(runtime, 'poller'),
  )
  const polling = { leases, poller, shared }
  const pollingRole = new PollingRole(polling, withLogName(runtime, 'polling'))
  const inbox = new Inbox({ store, sessions, views }, withLogName(runtime, 'inbox'))
  const oneShot = isOneShot ? new OneShot({ ...polling, inbox }, withLogName(runtime, 'recv')) : undefined
  const check = new TokenCheck({ sessions, oneShot }, withLogName(runtime, 'check'))
  return { poller, pollingRole, inbox, oneShot, check }
}

export type Receive = ReturnType<typeof openReceive>

/** Opens sessions and logins. */
export function openAccounts(
  { config, oneShot = false }: GatewayOptions,
  { state, store }: Directory,
  upstream: Upstream,
  { check, poller, pollingRole }: Receive,
  address: { url?: string | undefined },
  runtime: Runtime,
) {
  const most = () => ({
    pending: Math.min(permits.logins.size, shares.codes.most),
    sessions: pollingRole.role === 'poller' ? permits.polls.size : Number.POSITIVE_INFINITY,
  })
  const isKeyOver = createKeyCheck(store, runtime.clock)
  const ports = {
    upstream,
    sessions: state.sessions,
    flows: state.logins,
    most,
    oneShot,
    isKeyOver,
    familyOf: createFamilyLookup(store.keys),
    names: store.names,
    isInvitationOver: createInvitationCheck(store, runtime.clock),
  }
  const logins = new Logins(ports, withLogName(runtime, 'logins'))
  const accounts = new Accounts({ state, store, poller, logins, check }, runtime)
  const invitations = new Invitations({
    invitations: store.invitations,
    sessions: state.sessions,
    logins,
    listBelow: async id => listBelow(await store.keys.list(), id),
    hasKeys: () => store.keys.hasAny(),
    listRunningAgents: () => store.agents.listRunning(),
    findUrl: async () => address.url ?? (await findServiceUrl(config.basePath)),
    phoneUrl: upstream.sandboxed ? `${upstream.loginUrl}/phone` : undefined,
    clock: runtime.clock,
  })
  return { logins, accounts, invitations, users: new Users({ accounts, state, store }, runtime) }
}

export function openMedia(
  { maxUploadBytes }: Config,
  { folders, places, space, store, views }: Directory,
  upstream: MediaUpstream,
  runtime: Runtime,
): Media {
  const isKeyOver = createKeyCheck(store, runtime.clock)
  const familyOf = createFamilyLookup(store.keys)
  const ports = { upstream, store, views, folders, places, space, maxUploadBytes, isKeyOver, familyOf }
  return new Media(ports, withLogName(runtime, 'media'))
}

/** Opens sending: caller → outbox → WeChat. */
export function openSend(
  { pace }: Config,
  { state, store }: Directory,
  upstream: Upstream,
  { check }: Receive,
  {
    accounts,
    media,
    resolveTarget,
  }: { accounts: Accounts; media: Media; resolveTarget: ReturnType<typeof createTargetResolver> },
  runtime: Runtime,
) {
  const rules = { quota: quotaPerInbound, windowMs, pace, patienceMs: sendPatienceMs }
  const ports = { upstream, state, check, store, media, rules }
  const worker = new Worker(ports, withLogName(runtime, 'send'))
  const outbox = new Outbox(
    { state, store, worker, media, rules, resolveTarget },
    withLogName(runtime, 'outbox'),
  )
  const route = (to: string, session: string | undefined, scope: Scope) =>
    findRoute(accounts, to, session, scope)
  const resolveUser = async (user: string, session: string | undefined, scope: Scope) =>
    (await resolveTarget({ user, session, scope }, 'to')).user ?? user
  return {
    outbox,
    /** Finds the chat with a person. @throws as `Sender.send` */
    async findChat(to: string, session: string | undefined, scope: Scope) {
      const user_id = await resolveUser(to, session, scope)
      return { session: (await route(user_id, session, scope)).name, user_id }
    },
    sender: new Sender({ ...ports, worker, resolveUser, route }, withLogName(runtime, 'send')),
  }
}

/** Returns a check whether a key has ended, by its id. No key expires by a clock that may be wrong. */
const createKeyCheck =
  ({ keys, maintenance }: Directory['store'], clock: Clock) =>
  async (id: string): Promise<boolean> => {
    const key = await keys.get(id)
    return key === undefined || hasKeyEnded(key, (await maintenance.isClockTrusted()) ? clock.now() : 0)
  }

const createInvitationCheck =
  ({ invitations }: Directory['store'], clock: Clock) =>
  async (id: string): Promise<boolean> => {
    const one = await invitations.get(id)
    return one === undefined || invitationStatusOf(one, clock.now()) !== 'active'
  }

const createFamilyLookup = (keys: Directory['store']['keys']) => async (id: string) =>
  familyOf(await keys.list(), id)

/** Opens topics, and what sends what is said to them. */
export function openTopics(
  { leases, node, store: { keys, topics } }: Directory,
  {
    accounts,
    findChat,
    sender,
    users,
    media,
    history,
  }: Pick<ReturnType<typeof openSend>, 'findChat' | 'sender'> & {
    history: BulletinPorts['history']
    accounts: Accounts
    users: Users
    media: Media
  },
  runtime: Runtime,
) {
  const findRight: BulletinPorts['findRight'] = async ({ session, user_id }) => {
    const found = (await accounts.list()).find(({ name }) => name === session)
    if (!found?.connected) return undefined
    const [user] = await users.list({ session, user_id })
    return user ?? { remaining: 0 }
  }
  const keepFile: TopicPorts['keepFile'] = (content, call) => media.keep(content, call)
  // On PostgreSQL any node may poll.
  const isRunning = async () =>
    node
      ? (await node.list()).some(({ lease_left_ms, polls }) => polls && lease_left_ms > 0)
      : (await leases.findHolder()) !== undefined
  const own = withLogName(runtime, 'topics')
  return {
    topics: new Topics(
      {
        topics,
        findRight,
        async findTopName(key) {
          const all = await keys.list()
          const top = topOf(all, key)
          return all.find(({ id }) => id === top)?.name ?? top
        },
        isRunning,
        findChat: (to, session) => findChat(to, session, {}),
        keepFile,
      },
      own,
    ),
    bulletins: new Bulletins({ topics, findRight, history, sender }, own),
  }
}

/** Opens the backups by schedule. */
export function openBackups(
  { clock = systemClock, config, ownCommand }: GatewayOptions,
  { store }: Directory,
  { pollingRole }: Receive,
  runtime: Runtime,
): Backups {
  const { backupTo: folder, backupEvery: everyMs, backupKeep: keep, passphraseFile } = config
  const isEncrypted = passphraseFile !== undefined
  return new Backups(
    {
      backups: store.backups,
      events: store.events,
      schedule: folder === undefined ? undefined : { folder, everyMs, keep, isEncrypted },
      make: ownCommand && createBackupProcess(ownCommand, config),
      isPolling: () => pollingRole.isPolling,
    },
    withLogName({ ...runtime, clock }, 'backups'),
  )
}

/** Opens the events about sessions: state of the sessions → event log. */
export const openSessionEvents = (
  { state, store }: Directory,
  accounts: Accounts,
  { pollingRole }: Receive,
  runtime: Runtime,
) =>
  new SessionEventWriter(
    {
      events: store.events,
      sessions: state.sessions,
      toSessions: records => accounts.toSessions(records),
      isPolling: () => pollingRole.role === 'poller',
    },
    withLogName(runtime, 'sessions'),
  )

/** Opens push: events → webhooks. `address`: the public address of this service. */
export function openPush(
  { store, views }: Directory,
  resolveTarget: ResolveTarget,
  sender: Sender,
  { address, callbacks }: { address: { url?: string | undefined }; callbacks: Callbacks },
  runtime: Runtime,
) {
  const { clock, closing, log: ownLog } = withLogName(runtime, 'webhooks')
  const { events, log, maintenance, webhooks } = store
  const feed = new Feed({ events, log, views })
  const createLinks: WebhookSenderPorts['createLinks'] = ({ id: webhook, link_key }) => {
    const { url } = address
    if (url === undefined) return undefined
    const link = (message_id: string, item: string) =>
      `${url}${createSignedLink(link_key, { webhook, message_id, item }, clock.now())}`
    return { linkMedia: (id, item) => link(id, String(item)), linkMessage: id => link(id, 'message') }
  }
  const delivery = new WebhookDispatcher(
    {
      webhooks,
      events,
      feed,
      isClockReliable: () => maintenance.isClockTrusted(),
      createLinks,
      async sendReply({ id: webhook, grant, made_by = '' }, { id, session, user }, text) {
        // The run may not know yet that the endpoint was just removed, or that its key has ended.
        const now = await webhooks.get(webhook)
        if (!now || now.disabled)
          throw new SvcError('forbidden', `the webhook is ${now ? 'switched off' : 'removed'}`)
        const key = grant ? `${parsePrincipal(made_by).id}/${id}` : id
        const request = { to: user, text, session, media: [], idempotency_key: key }
        const by = { kind: 'webhook', id: webhook, ...(grant && { grant }) } as const
        await sender.send(request, createDirectCall({ by, signal: runtime.closing }))
      },
    },
    withLogName(runtime, 'webhooks'),
  )
  const getMessage = async (id: string, scope?: Scope) => {
    const [row] = (await log.getByMessageIds([id], undefined, scope)).rows
    return row && views.toMessage(row)
  }
  const isKeyOver = createKeyCheck(store, clock)
  const shared = { webhooks, events, resolveTarget, clock, closing, log: ownLog }
  const delivering = { feed, createLinks }
  const endpoints = new Webhooks({
    ...shared,
    ...delivering,
    getMessage,
    isKeyOver,
    listKeys: () => store.keys.list(),
  })
  const subscriptions = new Subscriptions({ ...shared, callbacks, endpoints }, runtime)
  return { delivery, webhooks: endpoints, subscriptions }
}
