/** Opens, starts and closes everything between upstream and memory; holds the parts and nothing else. */
import { mkdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { Accounts } from '../accounts/accounts.ts'
import { Logins } from '../accounts/logins.ts'
import { oneAtATime } from '../accounts/one-at-a-time.ts'
import { routeTo } from '../accounts/route.ts'
import type { Config } from '../config.ts'
import { type Account, createApi } from '../ilink/api.ts'
import { createCdn } from '../ilink/cdn.ts'
import { Media } from '../media/media.ts'
import { dataFiles } from '../model/data-files.ts'
import { SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { type BotInfo, quotaPerInbound, windowMs } from '../model/session.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { apiFetch } from '../platform/fetch.ts'
import { ensurePrivateDir } from '../platform/files.ts'
import { FreeSpace } from '../platform/free-space.ts'
import { openLock } from '../platform/lock.ts'
import { holdOf } from '../platform/lock-look.ts'
import type { Log } from '../platform/log.ts'
import { fetchSlots as slots } from '../platform/slots.ts'
import { CommitsUnderWay } from '../receive/commits-under-way.ts'
import { Dispatcher } from '../receive/dispatcher.ts'
import { Heartbeat } from '../receive/heartbeat.ts'
import { Inbox, type Reading } from '../receive/inbox.ts'
import { Judge } from '../receive/judge.ts'
import { OneShot } from '../receive/one-shot.ts'
import { Poller } from '../receive/poller.ts'
import { Outbox } from '../send/outbox.ts'
import { Sender } from '../send/send.ts'
import { Worker } from '../send/worker.ts'
import { openState } from '../state/state.ts'
import { inMemory, Store } from '../store/store.ts'
import { Changes } from './changes.ts'
import { Conversations } from './conversations.ts'
import type { Health, PanelGateway } from './gateway-api.ts'
import { History } from './history.ts'
import { Housekeeping } from './housekeeping.ts'
import { SandboxClock, sandboxFetch } from './sandbox-fetch.ts'

export type { Gateway, PanelGateway } from './gateway-api.ts'

export interface GatewayOptions {
  config: Config
  log: Log
  version: string
  /** Address of a running sandbox: every session then talks to it, whatever its token.json says. */
  sandboxUrl?: string
  /** Where the message log is: `messages.db` of the data directory by default, false for one in memory alone. */
  store?: string | false
  /** Whether recv polls by itself as long as `start` was not called; otherwise it waits for others to poll. */
  oneShot?: boolean
  /** The system's by default, in the sandbox its own. */
  clock?: Clock
}

/** A gateway and its life. */
export interface RunningGateway extends PanelGateway, AsyncDisposable {
  /**
   * Begins to poll, or to follow the store when another process polls.
   *
   * @throws SvcError `poll_lock_held` when another process polls and the store is in memory
   */
  start(): Promise<void>
  /** Received messages one by one, as `Inbox.follow`. */
  follow(reading: Reading, signal: AbortSignal): AsyncGenerator<Message, void, void>
  /** Row id of the newest row of the log. */
  end(): number
  /** Ends polling and logins, commits what is in hand, closes the files. Safe to call twice. */
  close(): Promise<void>
}

/** A log in memory keeps at most this many messages, some 10 MB. */
const memoryRows = 10_000
/** Logins may be under way at a time, where the runtime's limit of requests has room for them. */
const maxPendingLogins = 2000
/** A send waits at most this long for its slot. */
const sendPatienceMs = 30_000
/** Requests that hand messages over may take this long when the service stops, and all its work that long. */
const sendGraceMs = 1500
const closeMs = 3500

/**
 * Opens the data directory.
 *
 * @throws SvcError `store_unavailable` when the directory cannot be used, `invalid_arguments` for a bad setting
 */
export async function openGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { config, log, version, sandboxUrl } = options
  const sandboxClock = sandboxUrl === undefined ? undefined : new SandboxClock(systemClock)
  const clock = options.clock ?? sandboxClock ?? systemClock
  await ensurePrivateDir(config.basePath)
  // Private when made here; a folder that the user named keeps its rights.
  await mkdir(config.mediaRoot, { recursive: true, mode: 0o700 })
  const mediaRoot = await realpath(config.mediaRoot)
  const folders = { dataDir: await realpath(config.basePath), mediaRoot }
  const dataLock = await openLock(join(config.basePath, dataFiles.dataLock))
  const pollLock = await openLock(join(config.basePath, dataFiles.pollLock))
  const { sessions, contexts, commitBatch } = openState({
    dir: config.basePath,
    lock: dataLock,
    log: log.child('state'),
  })
  const shared = options.store !== false
  const store = await Store.open({
    path: options.store === false ? inMemory : (options.store ?? join(config.basePath, dataFiles.store)),
    log: log.child('store'),
    clock,
    maxAgeDays: config.storeMaxAgeDays,
    maxCount: shared ? config.storeMaxCount : Math.min(config.storeMaxCount || memoryRows, memoryRows),
  })

  contexts.archive = {
    ...(store.durable && { keep: store.keepContexts.bind(store) }),
    find: (session, user) => store.archive(archive => archive.find(session, user)),
    all: session => store.archive(archive => archive.all(session)),
    count: session => store.archive(archive => archive.count(session)),
    drop: (session, users) => store.archive(archive => archive.drop(session, users)),
    forget: session => store.archive(archive => archive.forget(session)),
  }
  const space = new FreeSpace(config.basePath, config.keepFreeBytes)
  const stop = new AbortController()
  const record = (name: string) => sessions.get(name)
  const upstreamUrl = sandboxUrl ?? config.upstreamUrl
  const cdnUrl = sandboxUrl ? `${sandboxUrl}/c2c` : config.cdnUrl
  const trustedHosts = new Set([new URL(upstreamUrl).host, new URL(cdnUrl).host])
  const trusted = (url: URL) => trustedHosts.has(url.host)
  const account = (bot: BotInfo): Account => ({ base_url: sandboxUrl ?? bot.base_url, token: bot.token })
  const fetch = sandboxUrl === undefined ? apiFetch : sandboxFetch(apiFetch, sandboxUrl, log, sandboxClock)
  const api = createApi({ fetch, channelVersion: config.channelVersion, version, slots })
  const cdn = createCdn({ fetch: apiFetch, trusted, slots: slots.media })

  const commits = new CommitsUnderWay()
  const poller = new Poller({
    api,
    sessions,
    store,
    commit: async batch => {
      const committed = await commits.add(commitBatch(batch))
      if (batch.inbound.length > 0) outbox.wake()
      return committed
    },
    account,
    slots: slots.polls,
    clock,
    log: log.child('poller'),
  })
  const heartbeat = new Heartbeat(join(config.basePath, dataFiles.pollLock), clock)
  const dispatcher = new Dispatcher({
    ...{ lock: pollLock, poller, heartbeat, clock, shared },
    log: log.child('dispatcher'),
  })
  const inbox = new Inbox({ store, clock, record, log: log.child('inbox'), closing: stop.signal })
  const oneShot = options.oneShot
    ? new OneShot({ inbox, lock: pollLock, poller, heartbeat, shared, clock, log: log.child('recv') })
    : undefined
  const alone = oneAtATime()
  const logins = new Logins({
    api,
    clock,
    log: log.child('logins'),
    loginUrl: upstreamUrl,
    pretended: sandboxUrl !== undefined,
    sessions,
    most: () => ({
      pending: Math.min(slots.logins.size, maxPendingLogins),
      sessions: dispatcher.role === 'poller' ? slots.polls.size : Number.POSITIVE_INFINITY,
    }),
    save: (name, bot, wanted) =>
      alone(async () => {
        if (!wanted()) return false
        await sessions.save(name, bot)
        poller.changed()
        return true
      }),
  })
  const judge = new Judge({
    ...{ sessions, clock, closing: stop.signal, log: log.child('judge') },
    changed: () => poller.changed(),
    polling: async () => oneShot?.polling(),
  })
  const accounts = new Accounts({
    sessions,
    judge,
    contexts,
    store,
    clock,
    lastPolls: () => poller.lastPolls(),
    loggingIn: () => logins.pending(),
    changed: () => poller.changed(),
    forgetLogin: name => logins.cancel(name),
    alone,
  })
  const conversations = new Conversations({
    ...{ store, clock },
    sessions: () => accounts.withUsers(),
  })
  const media = new Media({
    api,
    cdn,
    store,
    clock,
    log: log.child('media'),
    ...{ mediaRoot, folders, space },
    cdnUrl,
    maxUploadBytes: config.maxUploadBytes,
    trusted,
    closing: stop.signal,
  })
  const sending = {
    ...{ api, account, sessions, judge, contexts, store, clock },
    media: {
      look: media.sources.look.bind(media.sources),
      stage: media.sources.stage.bind(media.sources),
      upload: media.upload.bind(media),
      keep: media.kept.keep.bind(media.kept),
      open: media.kept.open.bind(media.kept),
      discard: media.kept.discard.bind(media.kept),
    },
    rules: { quota: quotaPerInbound, windowMs, pace: config.pace, patienceMs: sendPatienceMs },
    sandboxed: sandboxUrl !== undefined,
    log: log.child('send'),
    closing: stop.signal,
  }
  const worker = new Worker(sending)
  const polls = () => dispatcher.role === 'poller'
  const outbox: Outbox = new Outbox({
    ...{ store, worker, media: sending.media, polls, clock },
    log: log.child('outbox'),
    closing: stop.signal,
  })
  const sender = new Sender({
    ...sending,
    worker,
    async route(to, session) {
      // The message that is answered may have come this moment.
      await commits.ended()
      return (await routeTo({ accounts, contexts }, to, session)).session
    },
    wake: () => {
      if (polls()) outbox.wake()
    },
  })

  const housekeeping = new Housekeeping({
    ...{ sessions, store, media, outbox, clock, log, closing: stop.signal },
  })
  let closing: Promise<void> | undefined

  const gateway: RunningGateway = {
    inbox: oneShot
      ? {
          recv(request, call) {
            housekeeping.whenDue()
            return oneShot.recv(request, call)
          },
        }
      : inbox,
    sender,
    outbox,
    media: {
      accept: (upload, signal) => media.uploads.accept(upload, signal),
      open: (request, signal) => media.downloads.open(request, signal),
      download: (request, call) => media.downloads.download(request, call),
    },
    history: new History(store, record),
    accounts,
    logins,
    conversations,
    changes: new Changes({
      ...{ store, clock, log: log.child('changes'), closing: stop.signal },
      sessions: () => accounts.withUsers(),
    }),
    async health(): Promise<Health> {
      // A directory that cannot be read is trouble to report, not a reason to fail.
      const found = await sessions.list().catch(error => ({ error }))
      const all = 'error' in found ? [] : found
      const connected = all.filter(({ bot }) => bot && bot.expired_at === undefined).length
      const failing = all.filter(({ bot }) => bot?.failing_since !== undefined).length
      const trouble =
        'error' in found ? unreadable(found.error) : (store.trouble() ?? (poller.stuck ? stuck() : undefined))
      const pollId = await holdOf(join(config.basePath, dataFiles.pollLock)).catch(() => undefined)
      const disk = (await space.isLow()) ? 'low' : 'ok'
      const isWell =
        !trouble && !dispatcher.stalled && connected === all.length && failing === 0 && disk === 'ok'
      return {
        status: isWell ? 'ok' : 'degraded',
        version,
        role: dispatcher.role,
        stalled: dispatcher.stalled,
        ...(pollId !== undefined && { poll_id: pollId }),
        sessions: all.length,
        connected,
        ...(failing > 0 && { failing }),
        ...(trouble
          ? { store: 'unavailable', trouble: { message: trouble.message, hint: trouble.hint } }
          : { store: 'ok' }),
        disk,
      }
    },
    async start() {
      await oneShot?.halt()
      try {
        await dispatcher.start()
      } catch (error) {
        oneShot?.resume()
        throw error
      }
      housekeeping.start()
      outbox.start()
    },
    follow: (reading, signal) => inbox.follow(reading, signal),
    end: () => inbox.end,
    close() {
      closing ??= (async () => {
        stop.abort(new SvcError('shutting_down', 'the service is stopping'))
        logins.close()
        // Whatever hangs shall not hold the rest: a batch that is not stored by then is asked for again.
        const patience = new AbortController()
        await Promise.race([
          Promise.all([
            dispatcher.stop(),
            oneShot?.halt(),
            sender.close(sendGraceMs),
            outbox.closed(),
            housekeeping.closed(),
          ]),
          clock.sleep(closeMs, patience.signal),
        ])
        patience.abort()
        store.close()
        await pollLock.close()
        await dataLock.close()
      })()
      return closing
    },
    [Symbol.asyncDispose]() {
      return gateway.close()
    },
  }
  return gateway
}

// Only what is put into words for callers: other errors may name paths, and anybody may ask for the health.
const unreadable = (error: unknown): SvcError =>
  error instanceof SvcError ? error : new SvcError('store_unavailable', 'the data directory cannot be read')

const stuck = (): SvcError =>
  new SvcError('store_unavailable', 'messages that were received cannot be stored', {
    hint: 'Look at the log of svc for why; it tries again by itself.',
  })
