/** What every part of a gateway is given: its clock, its log, when it ends, and what other parts have to say. */
import type { MessageKind, SentStatus } from '../model/message.ts'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'

/** What parts tell each other, with what comes along. */
export interface Events {
  /** A polled batch is stored, and the right to answer it is on disk. */
  committed: [batch: { session: string; messages: readonly { from_user: string }[] }]
  /** Session files were written: a login, a logout, a rename, a question to getupdates. */
  sessionsChanged: []
  roleChanged: ['poller' | 'watcher']
  /** A poll is over. */
  polled: [outcome: 'messages' | 'empty' | 'refused' | 'failed']
  /** A message came in, once. */
  received: [kind: MessageKind]
  /** A message was handed to WeChat. */
  handedOver: [status: SentStatus, kind: MessageKind | undefined]
  /** A call of send is over: with the status of its result, or the code of its error. */
  sent: [outcome: string]
}

/** Hands each event to those who listen for it, at once and in the order in which they came. */
export class Bus {
  readonly #listeners: { [E in keyof Events]?: ((...news: Events[E]) => void)[] } = {}

  on<E extends keyof Events>(event: E, listener: (...news: Events[E]) => void): void {
    this.#listeners[event] ??= []
    this.#listeners[event].push(listener)
  }

  tell<E extends keyof Events>(event: E, ...news: Events[E]): void {
    for (const listener of this.#listeners[event] ?? []) listener(...news)
  }
}

export interface Runtime {
  readonly clock: Clock
  readonly log: Log
  /** Aborts when the gateway closes. */
  readonly closing: AbortSignal
  readonly bus: Bus
}

/** The same with a log of its own. */
export const named = (runtime: Runtime, name: string): Runtime => ({
  ...runtime,
  log: runtime.log.child(name),
})
