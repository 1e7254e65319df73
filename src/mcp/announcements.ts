/**
 * Notifications about changed resources: found once per principal, and sent to its clients that have
 * subscribed.
 */

import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import type { Gateway } from '../gateway/gateway-api.ts'
import { createDirectCall } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import type { Session } from '../model/session.ts'
import { followChanges } from '../operations/events.ts'
import { invoke } from '../operations/gate.ts'
import { mayCall } from '../operations/rights.ts'
import type { Log } from '../platform/log.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { McpContext, ResourceChange, ResourceChanges } from './context.ts'
import { mayRead, readableSessions } from './resources.ts'
import * as uris from './uris.ts'

/**
 * Changes are collected for this time, in milliseconds: a thousand messages at once become one notification.
 */
const gatherMs = 50
/** Same as the SDK's limit for `subscriptions/listen`. */
const maxSubscriptions = 1024

interface NotifierPorts {
  readonly gateway: Gateway | Promise<Gateway>
  readonly log: Log
}

/** Notifies listeners of changed resources. Follows the gateway for a principal only while it has listeners. */
export class ResourceChangeNotifier extends RoomPart<NotifierPorts> implements ResourceChanges {
  readonly #byPrincipal = new Map<Principal, PrincipalNotifier>()

  subscribe(by: Principal, listener: (change: ResourceChange) => void): () => void {
    const notifier = this.#byPrincipal.get(by) ?? new PrincipalNotifier({ ...this.ports, by })
    this.#byPrincipal.set(by, notifier)
    // A new function for each subscriber, so that two subscribers may pass the same listener.
    const subscriber = (change: ResourceChange) => listener(change)
    notifier.listeners.add(subscriber)
    return () => {
      if (!notifier.listeners.delete(subscriber) || notifier.listeners.size > 0) return
      notifier.stop()
      this.#byPrincipal.delete(by)
    }
  }

  async followed(by: Principal): Promise<void> {
    await this.#byPrincipal.get(by)?.followed
  }
}

/** Notifies the listeners of one principal, from its creation until `stop`. */
class PrincipalNotifier extends RoomPart<NotifierPorts & { readonly by: Principal }> {
  readonly listeners = new Set<(change: ResourceChange) => void>()
  readonly #stopped = new AbortController()
  readonly #follows = Promise.withResolvers<void>()
  readonly followed = this.#follows.promise

  constructor(ports: NotifierPorts & { readonly by: Principal }) {
    super(ports)
    this.#follow().catch(error => {
      ports.log.warn('changes cannot be followed', { error })
      this.stop()
    })
  }

  stop(): void {
    this.#stopped.abort()
    this.#follows.resolve()
  }

  async #follow(): Promise<void> {
    const { log } = this.ports
    const gateway = await this.ports.gateway
    const { signal } = this.#stopped
    const changes = await invoke(followChanges, gateway, {}, createDirectCall({ by: this.ports.by }), log)
    if (signal.aborted) return
    const gathered = new Set<string>()
    const notifyLater = async () => {
      await gateway.clock.sleep(gatherMs, signal)
      const changed = [...gathered]
      gathered.clear()
      if (!signal.aborted) for (const uri of changed) this.#notifyUpdated(uri)
    }
    const unsubscribe = changes.subscribe({
      reached: () => this.#follows.resolve(),
      message: ({ session, from_user, user_name }, kind) => {
        // The agent is not notified of messages that the bot sent.
        if (kind !== 'received') return
        if (gathered.size === 0) void notifyLater()
        for (const uri of [
          uris.inboxUri,
          uris.allUsersUri,
          uris.conversationUri(session, from_user),
          ...(user_name === undefined ? [] : [uris.conversationUri(session, user_name)]),
          uris.usersUri(session),
        ])
          gathered.add(uri)
      },
      sessions: (now, before) => {
        if (sessionsState(now) !== sessionsState(before)) this.#notifyUpdated(uris.sessionsUri)
        if (sessionListState(now) !== sessionListState(before)) this.#notify({ kind: 'list' })
      },
    })
    signal.addEventListener('abort', unsubscribe, { once: true })
  }

  /**
   * Notifies of an updated resource that the principal may read, in each spelling of its URI: the SDK compares
   * URIs of 2026-07-28 literally.
   */
  #notifyUpdated(uri: string): void {
    if (!mayRead(this.ports.by, uri)) return
    for (const spelling of uris.spellingsOf(uri)) this.#notify({ kind: 'updated', uri: spelling })
  }

  #notify(change: ResourceChange): void {
    for (const listener of [...this.listeners]) {
      try {
        listener(change)
      } catch (error) {
        this.ports.log.warn('resource change not passed on', { error })
      }
    }
  }
}

/**
 * Returns the content of the resource `sessions`, without `last_poll_at` and `users`, whose changes are not
 * announced.
 */
const sessionsState = (sessions: readonly Session[]) =>
  JSON.stringify(sessions, (key, value) => (key === 'last_poll_at' || key === 'users' ? undefined : value))

/** Returns the sessions as the list of resources contains them. */
const sessionListState = (sessions: readonly Session[]) =>
  JSON.stringify(readableSessions(sessions).map(({ name, user_count }) => [name, user_count]))

/**
 * Lets clients subscribe to the resources that they may read, and notifies them while the connection lasts.
 */
export function addSubscriptions(server: McpServer, context: McpContext): void {
  const { by, changes, closed, era, lasting, log } = context
  if (!mayCall(by, followChanges)) return
  server.server.registerCapabilities({ resources: { subscribe: true, listChanged: true } })
  if (!lasting) return
  /** Subscriptions: key of the URI → the spellings that the client used. */
  const subscribed = new Map<string, Set<string>>()

  const pass = (change: ResourceChange) => {
    if (!server.isConnected()) return
    if (change.kind === 'list') return server.sendResourceListChanged()
    // A legacy client gets each change once, in the spelling that it subscribed with.
    if (era === 'legacy' && change.uri !== uris.subscribableUri(change.uri)) return
    const spellings = era === 'modern' ? [change.uri] : subscribed.get(uris.subscriptionKey(change.uri) ?? '')
    for (const uri of spellings ?? []) {
      server.server
        .sendResourceUpdated({ uri })
        .catch(error => log.debug('resource change not sent', { error }))
    }
  }
  if (closed.aborted) return
  const stop = changes.subscribe(by, change => {
    // Most sessions are idle and have subscribed to nothing. A message costs nothing for them.
    if (era === 'legacy' && change.kind === 'updated' && subscribed.size === 0) return
    // A legacy client may get notifications only after its `initialize`.
    if (era === 'modern' || server.server.getClientCapabilities()) pass(change)
  })
  closed.addEventListener('abort', stop, { once: true })
  if (era === 'modern') return

  server.server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
    const key = uris.subscriptionKey(uri)
    if (key === undefined || !mayRead(by, key)) throw notSubscribableError(uri)
    if (subscribed.size >= maxSubscriptions && !subscribed.has(key))
      throw new ProtocolError(ProtocolErrorCode.InvalidRequest, `At most ${maxSubscriptions} subscriptions`)
    subscribed.set(key, (subscribed.get(key) ?? new Set()).add(uri))
    return {}
  })
  server.server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => {
    const key = uris.subscriptionKey(uri)
    const spellings = key === undefined ? undefined : subscribed.get(key)
    spellings?.delete(uri)
    if (key !== undefined && spellings?.size === 0) subscribed.delete(key)
    return {}
  })
}

const notSubscribableError = (uri: string) =>
  new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `${uri} has no change notifications. Subscribe to svc://inbox, svc://sessions, svc://users, svc://sessions/{session}/users or svc://conversations/{session}/{user}.`,
    { uri },
  )
