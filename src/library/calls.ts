/** How the methods of `Svc` call operations: through the gate, as a caller, until svc is closed. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { CallOptions } from '../client/api.ts'
import { Life } from '../client/background.ts'
import type { PlainCall } from '../client/group-methods.ts'
import type { SendInput } from '../client/verbs.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { createDirectCall } from '../model/call.ts'
import { badArgument, isSvcError } from '../model/error.ts'
import type { SendResult } from '../model/message.ts'
import { owner, type Principal } from '../model/principal.ts'
import { listAudit } from '../operations/audit.ts'
import { invoke } from '../operations/gate.ts'
import type { TypedOperation, TypedTool } from '../operations/operation.ts'
import { health } from '../operations/service.ts'
import { verbs } from '../operations/tools.ts'
import { listUsers, nameUser } from '../operations/users.ts'
import type { Log } from '../platform/log.ts'
import { findSystemUser } from '../platform/process.ts'
import { RoomPart } from '../platform/runtime.ts'
import { checkOptions } from './options.ts'

/** The operations of `PlainCall` that are not tools. */
const operations = { health, listAudit, listUsers, nameUser }

export class Calls extends RoomPart<{ gateway: RunningGateway; log: Log; hasStore: boolean }> {
  readonly life = new Life()

  async send(by: Principal, input: SendInput, options: CallOptions = {}): Promise<SendResult> {
    if (!this.ports.hasStore && input?.when_closed === 'queue') {
      throw badArgument('when_closed', '"queue" keeps the message in the store, which is off', {
        hint: 'Open svc with store: true, or a path.',
      })
    }
    return this.call(by, verbs.send, input, options)
  }

  /** Same as `MethodPorts.call`. */
  readonly callPlain = async <T>(name: PlainCall, input: object, options?: CallOptions): Promise<T> => {
    const operation = Reflect.get(operations, name)
    const answer = operation
      ? this.run(owner, operation, input)
      : this.call(owner, Reflect.get(verbs, name), input, options)
    return (await answer) as T
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
      const result = await invoke(tool, this.ports.gateway, input, call, this.ports.log)
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
    return invoke(operation, this.ports.gateway, input, call, this.ports.log)
  }
}
