/** What everything that is offered over MCP (tools, resources, prompts) may use, and what it knows of its connection. */

import type { ServerContext } from '@modelcontextprotocol/server'
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call, Delivery } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import { invoke } from '../operations/gate.ts'
import type { TypedOperation } from '../operations/operation.ts'
import type { GivenInput } from '../operations/schema.ts'
import type { Tool } from '../operations/tools.ts'
import type { Log } from '../platform/log.ts'
import type { Waiting } from '../server/http-call.ts'
import type { Questions } from './questions.ts'

/** The same for every connection of a process. */
export interface McpShared {
  readonly gateway: Gateway
  readonly tools: readonly Tool[]
  readonly log: Log
  readonly version: string
  /** Ask the person behind the client before anything is sent. */
  readonly confirmSend: boolean
  /** Give every answer as structured content too, also one that holds what people wrote. */
  readonly structured: boolean
  readonly changes: Changes
  /** Whose place recv uses where a call names none; `default` without it. */
  readonly consumer?: string
  /** The data directory, for commands that errors name. */
  readonly basePath?: string
}

/** What one connection is; made for each server that the factory builds. */
export interface McpContext extends McpShared {
  /** As of a call. Not false: the client runs on this machine as its user (stdio), and can read the paths it gets. */
  readonly local: Call['local']
  /** Who calls: the program that started svc, or one that passed the HTTP door. */
  readonly by: Principal
  /** legacy: the revisions of 2024 and 2025. modern: 2026-07-28, where a client cannot be asked while a call runs. */
  readonly era: 'legacy' | 'modern'
  /**
   * Whether the server lives longer than one request, so that what it sends on its own finds a client: true on stdio (both
   * eras) and in sessions of the legacy era. False for a modern request over HTTP: there the listeners of
   * `subscriptions/listen` are fed from `changes` by the HTTP door itself.
   */
  readonly lasting: boolean
  /** Aborts when the connection, or the one request, is over. */
  readonly closed: AbortSignal
  readonly calls: CallDoor
}

/** What a call needs from its door. */
export interface CallDoor {
  /** Ends the waits when the service stops; the calls then still give their answers. */
  readonly waiting: Waiting
  /** What people were asked, of this door. */
  readonly questions: Questions
  /** Takes the delivery of an answer that is on its way, and settles it once it is known to be written or lost. */
  deliver(delivery: Delivery, ctx: ServerContext): void
}

/** What an operation gives to the caller behind this connection. @throws SvcError as `invoke` */
export const ask = <I extends TObject, O extends TSchema>(
  { by, closed, gateway, local, log }: McpContext,
  operation: TypedOperation<I, O>,
  input: GivenInput<I>,
  signal: AbortSignal = closed,
): Promise<Static<O>> => invoke(operation, gateway, input, { by, local, signal, onDelivered() {} }, log)

/** Something that subscribers want to hear of. */
export type Change = { readonly kind: 'updated'; readonly uri: string } | { readonly kind: 'list' }

/**
 * News of resources. What it follows runs only while somebody listens.
 *
 * Legacy connections: `resources/subscribe` notes the URI, and its updates go out with `server.server.sendResourceUpdated`.
 * Modern stdio: no such request arrives; every change is sent the same way, and the entry picks what was asked for.
 * Modern HTTP: nothing to do here, see `McpContext.lasting`.
 */
export interface Changes {
  /** @returns ends it; safe to call twice */
  subscribe(listener: (change: Change) => void): () => void
}
