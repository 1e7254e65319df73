/**
 * Context of the tools, resources and prompts over MCP: the dependencies of the process and the facts of a
 * connection.
 */

import type { McpServer, ServerContext } from '@modelcontextprotocol/server'
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call, Delivery } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import { invoke } from '../operations/gate.ts'
import type { TypedOperation } from '../operations/operation.ts'
import type { CallerInput } from '../operations/schema.ts'
import type { Tool } from '../operations/tools.ts'
import type { Log } from '../platform/log.ts'
import type { ShutdownSignal } from '../server/http-call.ts'
import type { QuestionTickets } from './questions.ts'

/** Dependencies and settings that all connections of a process share. */
export interface McpShared {
  /** A promise where the server answers before the store is open: only calls that need it wait. */
  readonly gateway: Gateway | Promise<Gateway>
  readonly tools: readonly Tool[]
  readonly log: Log
  readonly version: string
  /** Whether the person behind the client must approve each send (`--confirm-send`). */
  readonly confirmSend: boolean
  /** Whether every answer also has structured content, including answers with text that people wrote. */
  readonly structured: boolean
  readonly changes: ResourceChanges
  /** Consumer of `recv` calls that name none. Without it: `default`. */
  readonly consumer?: string
  /** Path of the data directory. Commands that errors suggest contain it. */
  readonly basePath?: string
}

/** Facts and dependencies of one connection. Each server that `createMcpServer` builds gets its own. */
export interface McpContext extends McpShared {
  /**
   * Same as `Call.local`. If not false, the client runs on this machine as its user (stdio) and can read the
   * paths it gets.
   */
  readonly local: Call['local']
  /** The caller: the program that started svc, or one that passed the checks of the HTTP door. */
  readonly by: Principal
  /** Whether the caller showed a token or key. */
  readonly hasToken?: boolean
  /**
   * legacy: MCP revisions of 2024 and 2025. modern: 2026-07-28, which cannot ask the client while a call
   * runs.
   */
  readonly era: 'legacy' | 'modern'
  /**
   * Whether the server lives longer than one request, so that its own notifications reach the client. True on
   * stdio (both eras) and in MCP sessions of the legacy era. False for a modern request over HTTP: there
   * `http.ts` feeds `subscriptions/listen` from `changes`.
   */
  readonly lasting: boolean
  /** Aborts when the connection has ended, or the request if the server serves only one. */
  readonly closed: AbortSignal
  readonly calls: CallTransport
}

/** Creates the server of a connection or of a single request. */
export type ServerFactory = (
  request: Request | undefined,
  connection: Pick<McpContext, 'by' | 'era' | 'lasting' | 'closed'>,
  deliver?: CallTransport['deliver'],
) => McpServer

/** Dependencies that a transport passes to its calls. */
export interface CallTransport {
  /** Ends waiting calls when the service stops. They still give their answers. */
  readonly waiting: ShutdownSignal
  /** Open questions to people over this transport. */
  readonly questions: QuestionTickets
  /** Takes over the delivery of an answer, and settles it when the answer is known to be written or lost. */
  deliver(delivery: Delivery, ctx: ServerContext): void
  /**
   * Resolves when the client has read most notifications of a request: await it before the next one. Absent on a
   * transport that cannot tell.
   */
  waitForReader?(ctx: ServerContext, signal: AbortSignal): Promise<void>
}

/** Calls an operation for the caller behind this connection. @throws SvcError same as `invoke` */
export const callOperation = async <I extends TObject, O extends TSchema>(
  { by, closed, gateway, local, log }: McpContext,
  operation: TypedOperation<I, O>,
  input: CallerInput<I>,
  signal: AbortSignal = closed,
): Promise<Static<O>> => invoke(operation, await gateway, input, { by, local, signal, onDelivered() {} }, log)

/** A change that subscribers are notified of: a resource was updated, or the list of resources changed. */
export type ResourceChange = { readonly kind: 'updated'; readonly uri: string } | { readonly kind: 'list' }

/**
 * Changes of resources, as their principal sees them. It follows the gateway only while it has listeners.
 *
 * - Legacy connections: `resources/subscribe` stores the URI, and `server.server.sendResourceUpdated` sends
 *   its updates.
 * - Modern stdio: that request does not exist. The server sends every change with `sendResourceUpdated`,
 *   and `serveStdio` of the SDK passes on those that the client listens to.
 * - Modern HTTP: nothing is sent here, see `McpContext.lasting`.
 */
export interface ResourceChanges {
  /** @returns a function that unsubscribes; safe to call twice */
  subscribe(by: Principal, listener: (change: ResourceChange) => void): () => void
  /** Resolves when the listeners of a principal hear every change. */
  followed(by: Principal): Promise<void>
}
