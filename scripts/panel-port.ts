/**
 * Chooses the panel's port for `scripts/start`, in the process of svc: 8002, or a free one if that is taken. Two that
 * start at once would both find it free, so each first takes the UDP port of this number: only one process can have it,
 * and it is free again when that process ends.
 */
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'

const [port, host] = [8002, '127.0.0.1']
const claim = createSocket('udp4').unref()
const server = createServer()

const isClaimed = await new Promise<boolean>(resolve =>
  claim.once('error', () => resolve(false)).bind(port, host, () => resolve(true)),
)
const isFree =
  isClaimed &&
  (await new Promise<boolean>(resolve =>
    server.once('error', () => resolve(false)).listen(port, host, () => server.close(() => resolve(true))),
  ))
process.env.SVC_ADMIN_PORT = String(isFree ? port : 0)
