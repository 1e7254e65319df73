/** How the methods of `Svc` call operations: through the gate, as a caller, until svc is closed. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { CallOptions } from '../client/api.ts'
import { Life } from '../client/background.ts'
import type { SendInput } from '../client/verbs.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { createDirectCall } from '../model/call.ts'
import { badArgument, isSvcError } from '../model/error.ts'
import type { SendResult } from '../model/message.ts'
import type { Principal } from '../model/principal.ts'
import { invoke } from '../operations/gate.ts'
import type { TypedOperation, TypedTool } from '../operations/operation.ts'
import { verbs } from '../operations/tools.ts'
import type { Log } from '../platform/log.ts'
import { findSystemUser } from '../platform/process.ts'
import { checkOptions } from './options.ts'

export class Calls {
  readonly life = new Life()
  readonly #gateway: RunningGateway
  readonly #log: Log
  readonly #hasStore: boolean

  constructor(gateway: RunningGateway, log: Log, hasStore: boolean) {
    this.#gateway = gateway
    this.#log = log
    this.#hasStore = hasStore
  }

  async send(by: Principal, input: SendInput, options: CallOptions = {}): Promise<SendResult> {
    if (!this.#hasStore && input?.when_closed === 'queue') {
      throw badArgument('when_closed', '"queue" keeps the message in the store, which is off', {
        hint: 'Open svc with store: true, or a path.',
      })
    }
    return this.call(by, verbs.send, input, options)
  }

  /** Calls a tool. The caller may end the call, and its answer counts as delivered when it is returned. */
  async call<I extends TObject, O extends TSchema>(
    by: Principal,
    tool: TypedTool<I, O>,
    input: unknown,
    options: CallOptions = {},
  ): Promise<Static<O>> {
    this.life.rejectIfEnded()
    checkOptions('call', options)
    const { below, signal } = options
    signal?.throwIfAborted()
    const call = createDirectCall({
      by,
      address: `library:${findSystemUser()}`,
      local: true,
      below,
      ...(signal && { signal }),
    })
    let delivered = false
    try {
      const result = await invoke(tool, this.#gateway, input, call, this.#log)
      // An aborted `recv` counts as not delivered, so its messages come again.
      if (tool.name === verbs.recv.name) signal?.throwIfAborted()
      delivered = true
      return result
    } catch (error) {
      if (signal?.aborted && (!isSvcError(error) || isSvcError(error, 'shutting_down'))) throw signal.reason
      throw error
    } finally {
      call.done(delivered)
    }
  }

  /** Calls an operation that may still run while `close` waits for handlers and loops. */
  async run<I extends TObject, O extends TSchema>(
    by: Principal,
    operation: TypedOperation<I, O>,
    input: unknown,
  ): Promise<Static<O>> {
    this.life.rejectIfEnded()
    const call = createDirectCall({ by, address: `library:${findSystemUser()}`, signal: this.life.stop })
    return invoke(operation, this.#gateway, input, call, this.#log)
  }
}
