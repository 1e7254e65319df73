/**
 * Notifications about changed resources: found once per process, and sent to the clients that have
 * subscribed.
 */

import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Session } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Change, Changes, McpContext } from './context.ts'
import { readable } from './resources.ts'
import * as uris from './uris.ts'

/**
 * Changes are collected for this time, in milliseconds: a thousand messages at once become one notification.
 */
const gatherMs = 50
/** Same as the SDK's limit for `subscriptions/listen`. */
const mostSubscriptions = 1024

/** Notifies listeners of changed resources. Follows the gateway only while it has listeners. */
export class Announcements implements Changes {
  readonly #ports: { changes: Gateway['changes']; log: Log; clock: Clock }
  readonly #listeners = new Set<(change: Change) => void>()
  #stop: (() => void) | undefined

  /** @param ports.changes result of the operation `follow_changes` */
  constructor(ports: { changes: Gateway['changes']; log: Log; clock: Clock }) {
    this.#ports = ports
  }

  subscribe(listener: (change: Change) => void): () => void {
    // A new function for each subscriber, so that two subscribers may pass the same listener.
    const subscriber = (change: Change) => listener(change)
    this.#listeners.add(subscriber)
    this.#stop ??= this.#start()
    return () => {
      if (!this.#listeners.delete(subscriber) || this.#listeners.size > 0) return
      this.#stop?.()
      this.#stop = undefined
    }
  }

  #start(): () => void {
    const { changes, clock } = this.#ports
    const stopped = new AbortController()
    const gathered = new Set<string>()
    const notifyLater = async () => {
      await clock.sleep(gatherMs, stopped.signal)
      const changed = [...gathered]
      gathered.clear()
      if (!stopped.signal.aborted) for (const uri of changed) this.#updated(uri)
    }
    const unsubscribe = changes.subscribe({
      message: ({ session, from_user, user_name }, kind) => {
        // The agent is not notified of messages that the bot sent.
        if (kind !== 'received') return
        if (gathered.size === 0) void notifyLater()
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
      stopped.abort()
      unsubscribe()
    }
  }

  /**
   * Notifies of an updated resource in each spelling of its URI: the SDK compares URIs of 2026-07-28
   * literally.
   */
  #updated(uri: string): void {
    for (const spelling of uris.spellings(uri)) this.#tell({ kind: 'updated', uri: spelling })
  }

  #tell(change: Change): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(change)
      } catch (error) {
        this.#ports.log.warn('resource change not passed on', { error })
      }
    }
  }
}

/**
 * Content of the resource `sessions`, without `last_poll_at` and `users`, whose changes are not announced.
 */
const shown = (sessions: readonly Session[]) =>
  JSON.stringify(sessions, (key, value) => (key === 'last_poll_at' || key === 'users' ? undefined : value))

/** Sessions as the list of resources contains them. */
const listed = (sessions: readonly Session[]) =>
  JSON.stringify(readable(sessions).map(({ name, user_count }) => [name, user_count]))

/** Lets clients subscribe to resources, and notifies them while the connection lasts. */
export function addAnnouncements(server: McpServer, context: McpContext): void {
  const { changes, closed, era, lasting, log } = context
  server.server.registerCapabilities({ resources: { subscribe: true, listChanged: true } })
  if (!lasting) return
  /** Subscriptions: key of the URI → the spellings that the client used. */
  const subscribed = new Map<string, Set<string>>()

  const pass = (change: Change) => {
    if (!server.isConnected()) return
    if (change.kind === 'list') return server.sendResourceListChanged()
    // A legacy client gets each change once, in the spelling that it subscribed with.
    if (era === 'legacy' && change.uri !== uris.announcedUri(change.uri)) return
    const spellings = era === 'modern' ? [change.uri] : subscribed.get(uris.announcedKey(change.uri) ?? '')
    for (const uri of spellings ?? []) {
      server.server
        .sendResourceUpdated({ uri })
        .catch(error => log.debug('resource change not sent', { error }))
    }
  }
  if (closed.aborted) return
  const stop = changes.subscribe(change => {
    // A legacy client may get notifications only after its `initialize`.
    if (era === 'modern' || server.server.getClientCapabilities()) pass(change)
  })
  closed.addEventListener('abort', stop, { once: true })
  if (era === 'modern') return

  server.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
    const key = uris.announcedKey(uri)
    if (key === undefined) throw notAnnounced(uri)
    if (subscribed.size >= mostSubscriptions && !subscribed.has(key))
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, `At most ${mostSubscriptions} subscriptions`)
    subscribed.set(key, (subscribed.get(key) ?? new Set()).add(uri))
    return {}
  })
  server.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    const key = uris.announcedKey(uri)
    const spellings = key === undefined ? undefined : subscribed.get(key)
    spellings?.delete(uri)
    if (key !== undefined && spellings?.size === 0) subscribed.delete(key)
    return {}
  })
}

const notAnnounced = (uri: string) =>
  new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `${uri} has no change notifications. Subscribe to svc://inbox, svc://sessions, svc://users, svc://sessions/{session}/users or svc://conversations/{session}/{user}.`,
    { uri },
  )
