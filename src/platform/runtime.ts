/**
 * What every part of a gateway receives: its clock, its log, the signal that it closes, and the events of
 * other parts.
 */
import type { MessageKind, SentStatus } from '../model/message.ts'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import type { Tasks } from './tasks.ts'

/** Events between the parts of a gateway, with their arguments. */
export interface BusEvents {
  /** A polled batch is stored, and the context tokens to answer it are on disk. */
  committed: [
    batch: {
      session: string
      messages: readonly { from_user: string }[]
      /** The row id of each message. */
      rows: readonly (number | 'duplicate')[]
    },
  ]
  /** Session files were written: a login, a logout, a rename, a requested token check, a change of muting. */
  sessionsChanged: []
  roleChanged: ['poller' | 'watcher']
  /** A poll has ended. */
  polled: [outcome: 'messages' | 'empty' | 'refused' | 'failed']
  /** A new message was received. Sent once per message. */
  received: [kind: MessageKind]
  /** A message was handed to WeChat. */
  handedOver: [status: SentStatus, kind: MessageKind | undefined]
  /** A call of send has ended: with the status of its result, or the code of its error. */
  sent: [outcome: string]
  /** Retention removed messages that a consumer had not read: their number. */
  unreadRemoved: [count: number]
  /** These keys of callers ended, by their ids. */
  keysRevoked: [ids: readonly string[]]
  /** A key has got the account of a new login. */
  accountsFollowed: []
}

/** Calls the listeners of each event at once, in the order in which the events are sent. */
export class Bus {
  readonly #listeners: { [E in keyof BusEvents]?: ((...news: BusEvents[E]) => void)[] } = {}

  on<E extends keyof BusEvents>(event: E, listener: (...news: BusEvents[E]) => void): void {
    this.#listeners[event] ??= []
    this.#listeners[event].push(listener)
  }

  notify<E extends keyof BusEvents>(event: E, ...news: BusEvents[E]): void {
    for (const listener of this.#listeners[event] ?? []) listener(...news)
  }
}

export interface Runtime {
  readonly clock: Clock
  readonly log: Log
  /** Aborts when the gateway closes. */
  readonly closing: AbortSignal
  readonly bus: Bus
  /** The work that is done in the background. */
  readonly tasks: Tasks
}

/** Returns the runtime with a child log of this name. */
export const withLogName = (runtime: Runtime, name: string): Runtime => ({
  ...runtime,
  log: runtime.log.child(name),
})

/** A part of a room, with the other parts that it uses. */
export abstract class RoomPart<Ports> {
  protected readonly ports: Ports

  constructor(ports: Ports) {
    this.ports = ports
  }
}

/** A part of a room that also uses the runtime of the gateway. */
export abstract class RunningPart<Ports> extends RoomPart<Ports> {
  protected readonly runtime: Runtime

  constructor(ports: Ports, runtime: Runtime) {
    super(ports)
    this.runtime = runtime
  }
}
