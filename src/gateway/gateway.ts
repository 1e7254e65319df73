/** Builds a gateway from its rooms, and starts and stops it. */
import { endExpiredKeys } from '../access/expiry.ts'
import { Keys } from '../access/keys.ts'
import { RelayClients } from '../access/relay-clients.ts'
import { RelayLogins } from '../access/relay-logins.ts'
import { localFilesOf } from '../config/local-files.ts'
import { findServiceUrl } from '../config/notes.ts'
import type { Media } from '../media/media.ts'
import { SvcError } from '../model/error.ts'
import { scopeOf } from '../model/principal.ts'
import { apiFetch } from '../platform/fetch.ts'
import { type Runtime, withLogName } from '../platform/runtime.ts'
import { openCallbacks } from '../push/callbacks.ts'
import { EventReader } from '../push/events.ts'
import { ConsumerList } from '../receive/consumers.ts'
import { Asks } from './asks.ts'
import { Changes } from './changes.ts'
import { Conversations } from './conversations.ts'
import { connect, type Directory, type GatewayOptions, openDirectory, openRuntime } from './foundations.ts'
import type { Gateway } from './gateway-api.ts'
import { healthOf } from './health.ts'
import { History } from './history.ts'
import { Housekeeping } from './housekeeping.ts'
import { createTargetResolver } from './meant.ts'
import { Metrics, type ServedCertificate } from './metrics.ts'
import { People } from './people.ts'
import { Relays } from './relays.ts'
import * as open from './rooms.ts'

export type { GatewayOptions } from './foundations.ts'
export type { Gateway } from './gateway-api.ts'

/** A gateway that can be started and closed. */
export interface RunningGateway extends Gateway, AsyncDisposable {
  /**
   * Starts to poll. If another process polls, follows the store instead.
   *
   * @throws SvcError `poll_lock_held` if another process polls and the store is in memory
   */
  start(): Promise<void>
  /** Sets the address of this process, for links in deliveries if `publicUrl` is not set; and the token of its callers. */
  listensAt(url: string, token?: string): void
  /** Reports the expiry of the certificate of https in the metrics. */
  watchCertificate(certificate: ServedCertificate): void
  /** Gives up polling and deliveries, which other processes then take over. Calls are still served. */
  leave(): Promise<void>
  /**
   * Lets sends under way end while the interfaces stop. Aborts the sends that WeChat does not answer, so
   * that their callers still get a result.
   */
  endSends(): Promise<void>
  /** Ends polling and logins, commits what is in memory, closes the files. Safe to call twice. */
  close(): Promise<void>
}

/** When the service stops: time limit for sends under way. `closeMs` is the limit for everything. */
const sendGraceMs = 1500
const closeMs = 3500
const dayMs = 24 * 60 * 60_000

/**
 * Opens the data directory.
 *
 * @throws SvcError `store_unavailable` when the directory cannot be used, `invalid_arguments` for a bad setting
 */
export async function openGateway(options: GatewayOptions): Promise<RunningGateway> {
  const stop = new AbortController()
  const runtime = openRuntime(options, stop.signal)
  // The sandbox's time is also needed by a command that sends WeChat nothing.
  await runtime.sandboxClock?.ask(apiFetch)
  const directory = await openDirectory(options, runtime)
  const rooms = await openRooms(options, directory, runtime)
  const gateway = gatewayOf(options, rooms, runtime)
  let closing: Promise<void> | undefined
  const halt = () => stop.abort(new SvcError('shutting_down', 'the service is stopping'))
  const close = () => {
    halt()
    closing ??= closeRooms(rooms, runtime)
    return closing
  }
  return {
    ...gateway,
    async start() {
      await startRooms(rooms)
      const isPolling = () => rooms.receive.pollingRole.isPolling
      endExpiredKeys({ ...directory.store, isPolling }, withLogName(runtime, 'keys'))
      void runtime.sandboxClock?.keepAsking(apiFetch, stop.signal)
    },
    listensAt(url, token) {
      rooms.address.url ??= url
      directory.node?.setUrl(url, token)
    },
    watchCertificate: certificate => gateway.metrics.watchCertificate(certificate),
    leave: () => leave(rooms),
    async endSends() {
      if (await rooms.sender.waitUntilIdle(sendGraceMs)) return
      halt()
      await rooms.sender.close(0)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

type OpenedRuntime = ReturnType<typeof openRuntime>
/** The rooms that are started and closed, and what they share. */
type Rooms = Awaited<ReturnType<typeof openRooms>>

async function openRooms(options: GatewayOptions, directory: Directory, runtime: OpenedRuntime) {
  const { config } = options
  const { state, store, views } = directory
  const upstream = connect(options, runtime)
  const address = { url: config.publicUrl }
  const receive = open.openReceive(options, directory, upstream, runtime)
  const own = open.openAccounts(options, directory, upstream, receive, address, runtime)
  const media = open.openMedia(config, directory, upstream, runtime)
  const resolveTarget = createTargetResolver(directory, own.logins)
  const send = open.openSend(config, directory, upstream, receive, { ...own, media, resolveTarget }, runtime)
  const callbacks = await openCallbacks(config.eventsCallback, config.eventsCallbackCa)
  const push = open.openPush(directory, resolveTarget, send.sender, { address, callbacks }, runtime)
  const backups = open.openBackups(options, directory, receive, runtime)
  const housekeeping = new Housekeeping(
    {
      sessions: directory.state.sessions,
      upkeep: store.maintenance,
      media,
      outbox: send.outbox,
      backups,
      // Nobody reads a log that ends with its process.
      auditMs: store.durable ? config.auditDays * dayMs : 0,
      // They may quote messages.
      answersMs: Math.min(config.storeMaxAgeDays || 30, 30) * dayMs,
      retention: `max_age_days=${config.storeMaxAgeDays} max_count=${config.storeMaxCount} audit_days=${config.auditDays}`,
    },
    runtime,
  )
  const { events, log } = store
  const { contexts, sessions } = state
  const history = new History({ store, sessions, contexts, views, clock: runtime.clock })
  return {
    address,
    directory,
    receive,
    media,
    resolveTarget,
    backups,
    history,
    housekeeping,
    ...own,
    ...send,
    ...push,
    ...open.openTopics(directory, { ...own, ...send, history, media }, runtime),
    sessionEvents: open.openSessionEvents(directory, own.accounts, receive, runtime),
    events: new EventReader({ events, log, views, resolveTarget, sessions }),
    asks: openAsks(directory, send, receive, history, runtime),
  }
}

/** What the doors call. */
function gatewayOf(options: GatewayOptions, rooms: Rooms, runtime: OpenedRuntime) {
  const { accounts, directory, events, receive, resolveTarget } = rooms
  const { leases, node, state, store, views } = directory
  const { clock, tasks } = runtime
  const { config } = options
  const consumers = new ConsumerList(store)
  const keys = new Keys(
    { keys: store.keys, sessions: state.sessions, maintenance: store.maintenance, resolveTarget },
    withLogName(runtime, 'keys'),
  )
  const findUrl = async () =>
    config.publicUrl ??
    (await findServiceUrl(config.basePath, 'relay')) ??
    `http://127.0.0.1:${config.port || 8000}`
  const relayLogins = new RelayLogins({ store, sessions: state.sessions, keys, clock })
  const changes = new Changes({ events, accounts }, withLogName(runtime, 'changes'))
  return {
    accounts,
    changes,
    clock,
    consumers,
    events,
    tasks,
    sender: rooms.sender,
    outbox: rooms.outbox,
    users: rooms.users,
    logins: rooms.logins,
    invitations: rooms.invitations,
    topics: rooms.topics,
    webhooks: rooms.webhooks,
    subscriptions: rooms.subscriptions,
    backups: rooms.backups,
    audit: store.audit,
    agents: store.agents,
    relays: new Relays(
      { store, views, inbox: receive.inbox, sender: rooms.sender },
      withLogName(runtime, 'relays'),
    ),
    relayLogins,
    relayClients: new RelayClients({ store, sessions: state.sessions, keys, logins: relayLogins, findUrl }),
    signIns: state.signIns,
    inbox: inboxOf(rooms),
    media: mediaOf(rooms.media),
    asks: rooms.asks,
    history: rooms.history,
    conversations: new Conversations(
      { threads: store.conversations, history: rooms.history, views, accounts, changes },
      runtime,
    ),
    keys,
    people: new People(
      {
        store,
        state,
        queued: directory.places.queued,
        agentFolders: localFilesOf(config.basePath).agents,
        resolveTarget,
        scrub: options.scrub ?? (rewrite => store.people.scrub(rewrite)),
      },
      withLogName(runtime, 'people'),
    ),
    metrics: new Metrics(
      { store, accounts, consumers, node, version: options.version },
      withLogName(runtime, 'metrics'),
    ),
    async nodes() {
      if (!node) return { nodes: [] }
      const [nodes, replication] = await Promise.all([node.list(), node.readReplication()])
      return { nodes, replication }
    },
    pollerPid: () => leases.findHolder(),
    pollsSince: () => receive.pollingRole.pollsSince,
    health: () => healthOf(options.version, directory, receive, tasks),
  } satisfies Gateway
}

const openAsks = (
  { state, store, views }: Directory,
  { findChat, outbox, sender }: ReturnType<typeof open.openSend>,
  { oneShot }: open.Receive,
  history: History,
  runtime: Runtime,
) =>
  new Asks(
    {
      asks: store.asks,
      log: store.log,
      async readMessage(id) {
        const [row] = await store.log.getByIds([id])
        return row && views.toMessage(row)
      },
      history,
      sender,
      outbox,
      findChat: (to, session, by) => findChat(to, session, scopeOf(by)),
      findOwner: async session => {
        const { bot } = (await state.sessions.get(session)) ?? {}
        return bot?.invitation === undefined ? bot?.user_id : undefined
      },
      poll: async () => await oneShot?.startPolling(),
    },
    withLogName(runtime, 'asks'),
  )

const inboxOf = ({ asks, receive: { inbox, oneShot }, housekeeping }: Rooms): Gateway['inbox'] =>
  oneShot
    ? {
        async recv(request, call) {
          housekeeping.runIfDue()
          const received = await oneShot.recv(request, call)
          await asks.hear()
          return received
        },
        begin: (consumer, options) => inbox.begin(consumer, options),
        getHead: () => inbox.getHead(),
        follow: (reading, signal) => inbox.follow(reading, signal),
        open: (reading, signal) => inbox.open(reading, signal),
        countWaiting: (request, most) => inbox.countWaiting(request, most),
        lease: (request, call) => inbox.lease(request, call),
        renewLeases: (consumer, leases) => inbox.renewLeases(consumer, leases),
        settleLeases: (consumer, leases, read) => inbox.settleLeases(consumer, leases, read),
      }
    : inbox

const mediaOf = ({ downloads, kept, uploads }: Media): Gateway['media'] => ({
  accept: (upload, signal) => uploads.accept(upload, signal),
  open: (request, signal) => downloads.open(request, signal),
  download: (request, call) => downloads.download(request, call),
  // A message that was sent since it was listed is found among the sent ones.
  show: async ({ sight, ...request }, signal) =>
    (await kept.openForApproval(request.row, signal, sight)) ?? downloads.openSent(request, signal),
})

async function startRooms({
  receive: { pollingRole, oneShot },
  housekeeping,
  outbox,
  delivery,
  sessionEvents,
  backups,
  bulletins,
  asks,
}: Rooms): Promise<void> {
  await oneShot?.halt()
  try {
    await pollingRole.start()
  } catch (error) {
    oneShot?.resume()
    throw error
  }
  housekeeping.start()
  outbox.start()
  delivery.start(() => pollingRole.isPolling)
  sessionEvents.start()
  backups.start()
  bulletins.start(() => pollingRole.isPolling)
  asks.start(() => pollingRole.isPolling)
}

async function leave({ delivery, receive }: Pick<Rooms, 'delivery' | 'receive'>): Promise<void> {
  // The process that polls next also delivers next.
  await delivery.stop()
  await receive.pollingRole.stop()
}

async function closeRooms(rooms: Rooms, { clock }: Runtime): Promise<void> {
  // Work that hangs must not delay the rest. A batch that is not stored by then is polled again.
  const patience = new AbortController()
  await Promise.race([
    Promise.all([
      leave(rooms),
      rooms.receive.oneShot?.halt(),
      rooms.sender.close(sendGraceMs),
      rooms.logins.waitUntilClosed(),
      rooms.outbox.waitUntilClosed(),
      rooms.housekeeping.waitUntilClosed(),
      rooms.media.uploads.removed,
      rooms.sessionEvents.waitForEnd(),
      rooms.backups.waitUntilClosed(),
      rooms.bulletins.waitUntilClosed(),
      rooms.asks.waitUntilClosed(),
    ]),
    clock.sleep(closeMs, patience.signal),
  ])
  patience.abort()
  await rooms.directory.close()
}
