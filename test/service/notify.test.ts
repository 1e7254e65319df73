/** The words to systemd, as a socket gets them. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { openLibc } from '../../src/platform/libc.ts'
import { canNotify, notifyManager } from '../../src/platform/notify.ts'
import { version } from '../../src/version.ts'
import { folderOfFile } from '../support/folder.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const named = (name: string) => `${name}${canNotify ? '' : ' (Linux only)'}`
const folder = folderOfFile()

/** A socket as systemd has one; `path` begins with @ for one that has no file. */
async function listener(path: string) {
  const libc = (await openLibc({
    socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    bind: { args: ['i32', 'buffer', 'u32'], returns: 'i32' },
    recv: { args: ['i32', 'buffer', 'usize', 'i32'], returns: 'i64' },
    close: { args: ['i32'], returns: 'i32' },
  }))!
  const fd = libc.socket(1, 2, 0)
  const address = Buffer.concat([Buffer.from([1, 0]), Buffer.from(path.replace(/^@/, '\0'))])
  expect(libc.bind(fd, address, address.length)).toBe(0)
  return {
    /** The next datagram; undefined while there is none. */
    next() {
      const bytes = Buffer.alloc(4096)
      const length = Number(libc.recv(fd, bytes, bytes.length, 0x40))
      return length < 0 ? undefined : bytes.toString('utf8', 0, length)
    },
    [Symbol.dispose]: () => void libc.close(fd),
  }
}

test.skipIf(!canNotify)(
  named('a notice arrives as one datagram, at a path and at an abstract name'),
  async () => {
    for (const path of [join(folder, 'socket'), `@svc-notify-${crypto.randomUUID()}`]) {
      using socket = await listener(path)
      expect(await notifyManager(path, 'READY=1', 'STATUS=机器人')).toBe(true)
      expect(socket.next()).toBe('READY=1\nSTATUS=机器人')
      expect(socket.next()).toBeUndefined()
    }
    // Nobody listens, nobody asked, no such address: the service goes on.
    expect(await notifyManager(join(folder, 'nobody'), 'READY=1')).toBe(false)
    expect(await notifyManager(undefined, 'READY=1')).toBe(false)
    expect(await notifyManager(`/${'x'.repeat(200)}`, 'READY=1')).toBe(false)
  },
)

test.skipIf(!canNotify)(named('the service says when it listens, and when it stops'), async () => {
  const path = join(folder, 'service')
  using socket = await listener(path)
  await using service = await startService({ env: { NOTIFY_SOCKET: path } })
  const ready = await until('READY', 30_000, () => socket.next())
  expect(ready).toMatch(new RegExp(`^READY=1\\nSTATUS=.*\\b${version}\\b.* ${service.url}$`))
  expect(await service.kill('SIGTERM')).toBe(0)
  expect(socket.next()).toBe('STOPPING=1')
})
