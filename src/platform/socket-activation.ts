/** The sockets that systemd holds: connections wait in them while this process restarts. */
import { readdirSync, readFileSync } from 'node:fs'
import process from 'node:process'
import { attempt } from './fields.ts'
import { openLibc } from './libc.ts'
import { listActivatedFds } from './process.ts'

// sys/socket.h, fcntl.h and sys/epoll.h of Linux.
const internet = [2, 10]
const [setFlags, nonBlocking] = [4, 0o4000]
const closeOnExec = 0o2000000
const [add, remove] = [1, 2]
/** `struct epoll_event` is packed on x64 alone. */
const dataAt = process.arch === 'x64' ? 4 : 8

export interface ActivatedSocket {
  /** Gives it to the listener that Bun opened at this port. */
  give(openedPort: number): void
  /** Accepts no more: connections wait for the next process. */
  release(): void
}

/**
 * Finds the socket that systemd holds at this port.
 *
 * Bun 1.4.5 serves HTTP only on a socket that it opened. So it opens one at any port, and then gets systemd's in its
 * place: under the same descriptor, and with the same entry in the epoll that it waits with. That is what accepts, so
 * addresses of clients, deadlines and the stop are as without systemd.
 */
export async function findActivatedSocket(
  port: number,
  fds: readonly number[] = listActivatedFds(),
): Promise<ActivatedSocket | undefined> {
  if (port === 0 || fds.length === 0) return undefined
  const libc = await openLibc({
    getsockname: { args: ['i32', 'buffer', 'buffer'], returns: 'i32' },
    fcntl: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    dup3: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    epoll_ctl: { args: ['i32', 'i32', 'i32', 'buffer'], returns: 'i32' },
  })
  const isAt = (fd: number, wanted: number): boolean => {
    const address = new DataView(new ArrayBuffer(128))
    const failed = libc?.getsockname(fd, address, new Uint32Array([address.byteLength]))
    return failed === 0 && internet.includes(address.getUint16(0, true)) && address.getUint16(2) === wanted
  }
  const held = fds.find(fd => isAt(fd, port))
  if (!libc || held === undefined) return undefined
  let own: ReturnType<typeof listWaits>[number] | undefined
  return {
    give(openedPort) {
      own = listWaits().find(({ fd }) => isAt(fd, openedPort))
      if (
        !own ||
        libc.fcntl(held, setFlags, nonBlocking) !== 0 ||
        libc.dup3(held, own.fd, closeOnExec) !== own.fd ||
        libc.epoll_ctl(own.epoll, add, own.fd, own.event) !== 0
      )
        throw new Error(`the socket that systemd holds at port ${port} cannot be used on this system`)
    },
    release() {
      if (own) libc.epoll_ctl(own.epoll, remove, own.fd, own.event)
    },
  }
}

/** Lists what this process waits for with epoll. See proc_pid_fdinfo(5). */
const listWaits = () =>
  readdirSync('/proc/self/fdinfo').flatMap(epoll => {
    // The descriptor that listed the folder is closed by now.
    const text = attempt(() => readFileSync(`/proc/self/fdinfo/${epoll}`, 'utf8')) ?? ''
    return [...text.matchAll(/^tfd:\s*(\d+) events:\s*(\w+) data:\s*(\w+)/gm)].map(
      ([, fd, events = '', data = '']) => {
        const event = new DataView(new ArrayBuffer(16))
        event.setUint32(0, Number.parseInt(events, 16), true)
        event.setBigUint64(dataAt, BigInt(`0x${data}`), true)
        return { epoll: Number(epoll), fd: Number(fd), event }
      },
    )
  })
