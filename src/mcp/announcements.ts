/**
 * News of resources: one follower of the log for a whole process, and what each connection passes on to its client.
 */
import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Change, Changes, McpContext, McpGateway } from './context.ts'
import {
  announcedKey,
  announcedUri,
  conversationUri,
  inboxUri,
  sessionsUri,
  spellings,
  usersUri,
} from './uris.ts'

/** News of one resource are gathered this long: a backlog of a thousand messages is one piece of news. */
const gatherMs = 50
/** Sessions leave no mark in the log, so they are looked at. */
const lookAtSessionsMs = 2000
/** As the library's own limit for `subscriptions/listen`. */
const mostSubscriptions = 1024

export interface AnnouncementPorts {
  gateway: McpGateway
  log: Log
  clock: Clock
}

/** Follows the log and the sessions while anybody listens. */
export class Announcements implements Changes {
  readonly #ports: AnnouncementPorts
  readonly #listeners = new Set<(change: Change) => void>()
  #following: AbortController | undefined
  /** The sessions at the last look. */
  #seen: { shown: string; listed: string } | undefined

  constructor(ports: AnnouncementPorts) {
    this.#ports = ports
  }

  subscribe(listener: (change: Change) => void): () => void {
    // Two who bring the same function are still two.
    const own = (change: Change) => listener(change)
    this.#listeners.add(own)
    if (!this.#following) {
      this.#following = new AbortController()
      this.#start(this.#following.signal)
    }
    return () => {
      if (!this.#listeners.delete(own) || this.#listeners.size > 0) return
      this.#following?.abort()
      this.#following = undefined
    }
  }

  #start(signal: AbortSignal): void {
    const { log } = this.#ports
    const failed = (error: unknown) => {
      if (!signal.aborted) log.error('news of resources ended', { error })
    }
    this.#followLog(signal).catch(failed)
    this.#followSessions(signal).catch(failed)
  }

  async #followLog(signal: AbortSignal): Promise<void> {
    const { clock, gateway, log } = this.#ports
    const gathered = new Set<string>()
    const tell = async () => {
      await clock.sleep(gatherMs, signal)
      const uris = [...gathered]
      gathered.clear()
      if (signal.aborted) return
      for (const uri of uris) this.#updated(uri)
      // Perhaps somebody wrote for the first time.
      await this.#lookAtSessions(signal)
    }
    // Taken now: what is stored from here on is news, however long the first reading takes.
    let from = gateway.end()
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        for await (const { id, session, from_user } of gateway.follow({ from }, signal)) {
          ;[from, failures] = [id, 0]
          if (gathered.size === 0) void tell()
          gathered.add(inboxUri).add(conversationUri(session, from_user)).add(usersUri(session))
        }
        return
      } catch (error) {
        const waitMs = backoffMs(failures)
        log.error('new messages cannot be announced', { error, retryInMs: Math.round(waitMs) })
        await clock.sleep(waitMs, signal)
      }
    }
  }

  async #followSessions(signal: AbortSignal): Promise<void> {
    this.#seen = undefined
    while (!signal.aborted) {
      await this.#lookAtSessions(signal)
      await this.#ports.clock.sleep(lookAtSessionsMs, signal)
    }
  }

  async #lookAtSessions(signal: AbortSignal): Promise<void> {
    try {
      const sessions = await this.#ports.gateway.accounts.list()
      if (signal.aborted) return
      // When a session was polled last is no news.
      const shown = JSON.stringify(sessions.map(({ last_poll_at: _, ...session }) => session))
      const listed = JSON.stringify(sessions.map(({ name, user_count }) => [name, user_count]))
      const seen = this.#seen
      this.#seen = { shown, listed }
      if (seen && seen.shown !== shown) this.#updated(sessionsUri)
      if (seen && seen.listed !== listed) this.#tell({ kind: 'list' })
    } catch (error) {
      this.#ports.log.warn('sessions cannot be looked at', { error })
    }
  }

  /** In each spelling that clients use: the library compares those of 2026-07-28 letter by letter. */
  #updated(uri: string): void {
    for (const spelling of spellings(uri)) this.#tell({ kind: 'updated', uri: spelling })
  }

  #tell(change: Change): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(change)
      } catch (error) {
        this.#ports.log.warn('news not passed on', { error })
      }
    }
  }
}

/** Lets clients subscribe, and passes on what they want to hear of for as long as the connection lasts. */
export function addAnnouncements(server: McpServer, context: McpContext): void {
  const { changes, closed, era, lasting, log } = context
  server.server.registerCapabilities({ resources: { subscribe: true, listChanged: true } })
  if (!lasting) return
  /** The one spelling → the client's own. */
  const wanted = new Map<string, Set<string>>()

  const pass = (change: Change) => {
    if (!server.isConnected()) return
    if (change.kind === 'list') return server.sendResourceListChanged()
    // Sessions of a legacy client get it in its own spelling, and once.
    if (era === 'legacy' && change.uri !== announcedUri(change.uri)) return
    const uris = era === 'modern' ? [change.uri] : wanted.get(announcedKey(change.uri) ?? '')
    for (const uri of uris ?? []) {
      server.server.sendResourceUpdated({ uri }).catch(error => log.debug('news not sent', { error }))
    }
  }
  if (closed.aborted) return
  const stop = changes.subscribe(change => {
    // Nothing may be said before the client has introduced itself.
    if (era === 'modern' || server.server.getClientCapabilities()) pass(change)
  })
  closed.addEventListener('abort', stop, { once: true })
  if (era === 'modern') return

  server.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
    const key = announcedKey(uri)
    if (key === undefined) throw notAnnounced(uri)
    if (wanted.size >= mostSubscriptions && !wanted.has(key))
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, `At most ${mostSubscriptions} subscriptions`)
    wanted.set(key, (wanted.get(key) ?? new Set()).add(uri))
    return {}
  })
  server.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    const key = announcedKey(uri)
    const spelt = key === undefined ? undefined : wanted.get(key)
    spelt?.delete(uri)
    if (key !== undefined && spelt?.size === 0) wanted.delete(key)
    return {}
  })
}

const notAnnounced = (uri: string) =>
  new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `Nothing is announced for ${uri}. Subscribe to svc://inbox, svc://sessions, svc://sessions/{session}/users or svc://conversations/{session}/{user}.`,
    { uri },
  )
