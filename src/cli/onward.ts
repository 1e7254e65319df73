/** Of a reader that names itself: its position is used, beside a running service too. */
import type { Gateway } from '../gateway/gateway-api.ts'

/** Else recv shows there what came in the last minute, whoever has read it. */
export const onward = (gateway: Gateway): Gateway => ({
  ...gateway,
  inbox: {
    begin: consumer => gateway.inbox.begin(consumer),
    recv: (request, call) => gateway.inbox.recv({ ...request, onward: true }, call),
    waiting: (request, most) => gateway.inbox.waiting(request, most),
  },
})
