/**
 * News of resources: said once for a whole process, and what each connection passes on to its client.
 */

import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Session } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Change, Changes, McpContext } from './context.ts'
import { readable } from './resources.ts'
import * as uris from './uris.ts'

/** News of one resource are gathered this long: a backlog of a thousand messages is one piece of news. */
const gatherMs = 50
/** As the library's own limit for `subscriptions/listen`. */
const mostSubscriptions = 1024

/** Says which resources are other ones now, while anybody listens. */
export class Announcements implements Changes {
  readonly #ports: { changes: Gateway['changes']; log: Log; clock: Clock }
  readonly #listeners = new Set<(change: Change) => void>()
  #stop: (() => void) | undefined

  /** @param ports.changes what `follow_changes` gave */
  constructor(ports: { changes: Gateway['changes']; log: Log; clock: Clock }) {
    this.#ports = ports
  }

  subscribe(listener: (change: Change) => void): () => void {
    // Two who bring the same function are still two.
    const own = (change: Change) => listener(change)
    this.#listeners.add(own)
    this.#stop ??= this.#start()
    return () => {
      if (!this.#listeners.delete(own) || this.#listeners.size > 0) return
      this.#stop?.()
      this.#stop = undefined
    }
  }

  #start(): () => void {
    const { changes, clock } = this.#ports
    const over = new AbortController()
    const gathered = new Set<string>()
    const tell = async () => {
      await clock.sleep(gatherMs, over.signal)
      const news = [...gathered]
      gathered.clear()
      if (!over.signal.aborted) for (const uri of news) this.#updated(uri)
    }
    const unsubscribe = changes.subscribe({
      message: ({ session, from_user, user_name }, news) => {
        // What a bot says itself shall not wake it.
        if (news !== 'received') return
        if (gathered.size === 0) void tell()
        for (const uri of [
          uris.inboxUri,
          uris.everybodyUri,
          uris.conversationUri(session, from_user),
          ...(user_name === undefined ? [] : [uris.conversationUri(session, user_name)]),
          uris.usersUri(session),
        ])
          gathered.add(uri)
      },
      sessions: (now, before) => {
        if (shown(now) !== shown(before)) this.#updated(uris.sessionsUri)
        if (listed(now) !== listed(before)) this.#tell({ kind: 'list' })
      },
    })
    return () => {
      over.abort()
      unsubscribe()
    }
  }

  /** In each spelling that clients use: the library compares those of 2026-07-28 letter by letter. */
  #updated(uri: string): void {
    for (const spelling of uris.spellings(uri)) this.#tell({ kind: 'updated', uri: spelling })
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

/** What the resource `sessions` shows; when a session was polled last is no news. */
const shown = (sessions: readonly Session[]) =>
  JSON.stringify(sessions, (key, value) => (key === 'last_poll_at' || key === 'users' ? undefined : value))

/** What the list of resources shows of them. */
const listed = (sessions: readonly Session[]) =>
  JSON.stringify(readable(sessions).map(({ name, user_count }) => [name, user_count]))

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
    if (era === 'legacy' && change.uri !== uris.announcedUri(change.uri)) return
    const told = era === 'modern' ? [change.uri] : wanted.get(uris.announcedKey(change.uri) ?? '')
    for (const uri of told ?? []) {
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
    const key = uris.announcedKey(uri)
    if (key === undefined) throw notAnnounced(uri)
    if (wanted.size >= mostSubscriptions && !wanted.has(key))
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, `At most ${mostSubscriptions} subscriptions`)
    wanted.set(key, (wanted.get(key) ?? new Set()).add(uri))
    return {}
  })
  server.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    const key = uris.announcedKey(uri)
    const spelt = key === undefined ? undefined : wanted.get(key)
    spelt?.delete(uri)
    if (key !== undefined && spelt?.size === 0) wanted.delete(key)
    return {}
  })
}

const notAnnounced = (uri: string) =>
  new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `Nothing is announced for ${uri}. Subscribe to svc://inbox, svc://sessions, svc://users, svc://sessions/{session}/users or svc://conversations/{session}/{user}.`,
    { uri },
  )
