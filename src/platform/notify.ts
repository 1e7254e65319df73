/** Reports the state of the service to systemd: sd_notify(3), a datagram to a socket that systemd names. */
import { Buffer } from 'node:buffer'
import process from 'node:process'
import { openLibc } from './libc.ts'

/**
 * Whether this runtime can do it: it needs Unix datagrams, which Bun has only through libc and Deno not at
 * all.
 */
export const canNotify: boolean = process.platform === 'linux' && process.versions.bun !== undefined

// sys/socket.h of Linux.
const unix = 1
const datagram = 2
const closeOnExec = 0o2000000
const noSignal = 0x4000
/** The length of `sun_path`. */
const longestPath = 108

/**
 * Sends `lines` such as `READY=1` to the socket that systemd named. Does nothing where it named none.
 *
 * @returns whether they were sent
 */
export async function notifyManager(
  socketPath: string | undefined,
  ...lines: readonly string[]
): Promise<boolean> {
  if (!socketPath || !canNotify) return false
  const name = Buffer.from(socketPath)
  if (name.length >= longestPath) return false
  // An abstract socket name is written with @ but begins with a zero byte.
  if (name[0] === 0x40) name[0] = 0
  const address = Buffer.concat([Buffer.from(new Uint16Array([unix]).buffer), name])
  const message = Buffer.from(lines.join('\n'))
  const libc = await openLibc({
    socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    sendto: { args: ['i32', 'buffer', 'usize', 'i32', 'buffer', 'u32'], returns: 'i64' },
    close: { args: ['i32'], returns: 'i32' },
  })
  const fd = libc?.socket(unix, datagram | closeOnExec, 0) ?? -1
  if (!libc || fd < 0) return false
  const sent = libc.sendto(fd, message, message.length, noSignal, address, address.length)
  libc.close(fd)
  return Number(sent) === message.length
}
