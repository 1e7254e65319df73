/**
 * A simulated WeChat: iLink API, CDN and a simulated phone in one fetch handler, its world kept in one folder. One
 * process runs it per folder; the others read its address there and use it.
 */
import { join } from 'node:path'
import { sandboxClockHeader } from '../ilink/wire.ts'
import { SvcError } from '../model/error.ts'
import { ensurePrivateDir, readText, removeQuietly, writeDurably } from '../platform/files.ts'
import { type FileLock, openLock } from '../platform/lock.ts'
import { reachable, serve } from '../platform/serve.ts'
import { createCdn } from './cdn.ts'
import type { SandboxOptions } from './core.ts'
import { createEmulator } from './emulator.ts'
import { createPhone } from './phone.ts'
import { openWorld, type World } from './world.ts'

/** The simulated WeChat as a handler; for one process at a time. @throws Error when its world cannot be opened */
async function openSandbox(options: SandboxOptions) {
  const world = await openWorld(options)
  const { log } = options
  const ilink = createEmulator(world)
  const cdn = createCdn(world)
  const phone = createPhone(world)
  // A service in the sandbox lives by the world's clock.
  const dated = (response: Response) => {
    response.headers.set(sandboxClockHeader, String(world.core.aheadMs))
    return response
  }
  let running = 0
  let idle = () => {}
  return {
    world,
    async fetch(request: Request): Promise<Response> {
      const url = new URL(request.url)
      // Some clients join with one slash too many.
      url.pathname = url.pathname.replace(/\/{2,}/g, '/')
      running++
      try {
        if (url.pathname.startsWith('/ilink/')) return dated(await ilink(request, url))
        if (url.pathname.startsWith('/c2c/')) return await cdn(request, url)
        if (/^\/phone(\/|$)/.test(url.pathname)) return dated(await phone(request, url))
        if (url.pathname === '/') return new Response(null, { status: 302, headers: { location: 'phone' } })
        return new Response('not found', { status: 404 })
      } catch (error) {
        // A client that breaks off in the middle of its body is daily life.
        if (request.signal.aborted) return new Response(null, { status: 499 })
        log.error('request failed', { path: url.pathname, error })
        return new Response('', { status: 500 })
      } finally {
        if (--running === 0) idle()
      }
    },
    async close() {
      world.core.close()
      // The world's file closes under nobody: first the answers that are being written.
      if (running > 0) {
        const { promise: quiet, resolve } = Promise.withResolvers<void>()
        idle = resolve
        await Promise.race([quiet, options.clock.sleep(2000)])
      }
      world.close()
    },
  }
}

const addressFile = 'address'
const lockFile = '.lock'
/** Whether the process that runs it is gone. */
const lookEveryMs = 1000

type Options = SandboxOptions & { host: string; port: number }

/** The folder's simulated WeChat, as its users reach it. */
interface Used {
  url: string
  stop(): Promise<void>
}

/**
 * Runs the folder's simulated WeChat and says in the folder where.
 *
 * @throws SvcError `store_unavailable` when another process runs it; Error with `code` EADDRINUSE … when it cannot listen
 */
export async function startSandbox(options: Options): Promise<Used & { world: World }> {
  await using opened = new AsyncDisposableStack()
  const lock = opened.use(await lockOf(options.dir))
  if (!(await lock.tryLock())) {
    throw new SvcError('store_unavailable', 'another process runs the sandbox of this directory', {
      hint: 'Use that one, stop it, or choose another folder with --base-path.',
    })
  }
  const { url, world, stop } = await listen(options)
  opened.defer(stop)
  const running = opened.move()
  return { url, world, stop: () => running.disposeAsync() }
}

/** Under its lock. */
async function listen(options: Options) {
  await using opened = new AsyncDisposableStack()
  const { world, fetch } = opened.adopt(await openSandbox(options), sandbox => sandbox.close())
  const server = await serve({
    hostname: options.host,
    port: options.port,
    fetch(request, peer) {
      // It is for this machine, and its clients hold long polls.
      peer.accept()
      return fetch(request)
    },
  })
  opened.defer(() => {
    // Held polls first, else the server would wait for them.
    world.core.close()
    return server.stop(1000)
  })
  // As this machine reaches it: upstream address, with /c2c the CDN, with /phone the phone.
  const url = reachable(server.url)
  const address = join(options.dir, addressFile)
  await writeDurably(address, `${url}\n`)
  opened.defer(() => removeQuietly(address))
  options.log.debug('sandbox running', { url })
  const running = opened.move()
  return { url, world, stop: () => running.disposeAsync() }
}

/** The one that another process runs for this folder, whose place is taken at the same address once it is gone. */
export async function followSandbox(options: Options): Promise<Used | undefined> {
  await using opened = new AsyncDisposableStack()
  const lock = opened.use(await lockOf(options.dir))
  const running = await addressOfHolder(lock, options.dir)
  if (!running) return undefined
  const ended = new AbortController()
  const port = Number(new URL(running.url).port)
  const following = succeed({ ...options, port }, lock, ended.signal)
  opened.defer(() => {
    ended.abort()
    return following
  })
  const followed = opened.move()
  return { url: running.url, stop: () => followed.disposeAsync() }
}

/** Runs it as soon as the lock is free, until the signal aborts. */
async function succeed(options: Options, lock: FileLock, signal: AbortSignal): Promise<void> {
  let told = false
  for (; !signal.aborted; await options.clock.sleep(lookEveryMs, signal)) {
    try {
      if (!(await lock.tryLock())) continue
      const { url, stop } = await listen(options)
      options.log.info('the process that ran the simulated WeChat is gone: it runs here now', { url })
      if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
      return await stop()
    } catch (error) {
      if (!told)
        options.log.warn('the simulated WeChat cannot be run in place of the process that is gone', { error })
      told = true
      await lock.unlock()
    }
  }
}

async function lockOf(dir: string) {
  await ensurePrivateDir(dir)
  return await openLock(join(dir, lockFile))
}

/** The sandbox that another process runs for this folder; undefined when none does. */
export async function joinSandbox(dir: string): Promise<{ url: string } | undefined> {
  await using lock = await lockOf(dir)
  return await addressOfHolder(lock, dir)
}

async function addressOfHolder(lock: FileLock, dir: string): Promise<{ url: string } | undefined> {
  // The holder writes its address a moment after it took the lock.
  for (let tries = 0; tries < 100; tries++) {
    if (await lock.tryLock()) return undefined
    const url = (await readText(join(dir, addressFile)))?.trim()
    if (url && (await answers(url))) return { url }
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  throw new SvcError(
    'store_unavailable',
    'another process holds the sandbox of this directory and does not answer',
  )
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/phone/stats`, { signal: AbortSignal.timeout(2000) })
    await response.body?.cancel()
    return response.ok
  } catch {
    return false
  }
}
