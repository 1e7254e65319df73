/** The inbox for a command that names its consumer. */
import type { Gateway } from '../gateway/gateway-api.ts'

/**
 * The same gateway, whose recv reads on from the consumer's position beside a running service too. A command that names no
 * consumer is shown there what came in the last minute.
 */
export const onward = (gateway: Gateway): Gateway => ({
  ...gateway,
  inbox: {
    begin: consumer => gateway.inbox.begin(consumer),
    recv: (request, call) => gateway.inbox.recv({ ...request, onward: true }, call),
    waiting: (request, most) => gateway.inbox.waiting(request, most),
  },
})
