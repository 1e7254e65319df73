/**
 * The simulated WeChat: iLink API, CDN and a simulated phone in one fetch handler, with its data in one
 * folder. One process runs it per folder; other processes read its address in the folder and use it.
 */
import { join } from 'node:path'
import { sandboxClockHeader } from '../ilink/wire.ts'
import { SvcError } from '../model/error.ts'
import { ensurePrivateDir, readText, removeQuietly, writeDurably } from '../platform/files.ts'
import { type FileLock, openLock } from '../platform/lock.ts'
import { serve, toReachableUrl } from '../platform/serve.ts'
import { createCdn } from './cdn.ts'
import type { SandboxOptions } from './core.ts'
import { createEmulator } from './emulator.ts'
import { createPhone } from './phone.ts'
import { openWorld, type World } from './world.ts'

/**
 * Opens the simulated WeChat as a fetch handler, for one process at a time.
 *
 * @throws Error if its database cannot be opened
 */
async function openSandbox(options: SandboxOptions) {
  const world = await openWorld(options)
  const { log } = options
  const ilink = createEmulator(world)
  const cdn = createCdn(world)
  const phone = createPhone(world)
  // A service in the sandbox sets its clock by this header.
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
      // Some clients write a double slash between base URL and path.
      url.pathname = url.pathname.replace(/\/{2,}/g, '/')
      running++
      try {
        if (url.pathname.startsWith('/ilink/')) return dated(await ilink(request, url))
        if (url.pathname.startsWith('/c2c/')) return await cdn(request, url)
        if (/^\/phone(\/|$)/.test(url.pathname)) return dated(await phone(request, url))
        if (url.pathname === '/') return new Response(null, { status: 302, headers: { location: 'phone' } })
        return new Response('not found', { status: 404 })
      } catch (error) {
        // A client that disconnects while it sends its body is normal.
        if (request.signal.aborted) return new Response(null, { status: 499 })
        log.error('request failed', { path: url.pathname, error })
        return new Response('', { status: 500 })
      } finally {
        if (--running === 0) idle()
      }
    },
    async close() {
      world.core.close()
      // The responses in progress need the database: wait up to 2 s for them before it closes.
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
/** How often, in milliseconds, to check whether the process that runs the sandbox is gone. */
const lockCheckMs = 1000

type Options = SandboxOptions & { host: string; port: number }

/** A running simulated WeChat as its users reach it. */
interface SandboxHandle {
  url: string
  stop(): Promise<void>
}

/**
 * Runs the folder's simulated WeChat and writes its address into the folder.
 *
 * @throws SvcError `store_unavailable` if another process runs it; Error with `code` (EADDRINUSE and
 * others) if it cannot listen
 */
export async function startSandbox(options: Options): Promise<SandboxHandle & { world: World }> {
  await using opened = new AsyncDisposableStack()
  const lock = opened.use(await openSandboxLock(options.dir))
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

/** Opens and serves the sandbox. The caller holds the lock. */
async function listen(options: Options) {
  await using opened = new AsyncDisposableStack()
  const { world, fetch } = opened.adopt(await openSandbox(options), sandbox => sandbox.close())
  const server = await serve({
    hostname: options.host,
    port: options.port,
    fetch(request, peer) {
      // Lifts the limits that `serve` sets for strangers: clients here are programs of this machine, and
      // they hold long polls.
      peer.accept()
      return fetch(request)
    },
  })
  opened.defer(() => {
    // Ends the pending polls first; the server would wait for them.
    world.core.close()
    return server.stop(1000)
  })
  // URL by which this machine reaches it: the API's base URL, with `/c2c` the CDN, with `/phone` the phone.
  const url = toReachableUrl(server.url)
  const address = join(options.dir, addressFile)
  await writeDurably(address, `${url}\n`)
  opened.defer(() => removeQuietly(address))
  options.log.debug('sandbox running', { url })
  const running = opened.move()
  return { url, world, stop: () => running.disposeAsync() }
}

/**
 * Uses the sandbox that another process runs for this folder, and runs it at the same address when that
 * process ends. Returns undefined if no process runs it.
 */
export async function followSandbox(options: Options): Promise<SandboxHandle | undefined> {
  await using opened = new AsyncDisposableStack()
  const lock = opened.use(await openSandboxLock(options.dir))
  const running = await findHolder(lock, options.dir)
  if (!running) return undefined
  const ended = new AbortController()
  const port = Number(new URL(running.url).port)
  const following = takeOverWhenFree({ ...options, port }, lock, ended.signal)
  opened.defer(() => {
    ended.abort()
    return following
  })
  const followed = opened.move()
  return { url: running.url, stop: () => followed.disposeAsync() }
}

/** Runs the sandbox as soon as the lock is free, until the signal aborts. */
async function takeOverWhenFree(options: Options, lock: FileLock, signal: AbortSignal): Promise<void> {
  let reported = false
  for (; !signal.aborted; await options.clock.sleep(lockCheckMs, signal)) {
    try {
      if (!(await lock.tryLock())) continue
      const { url, stop } = await listen(options)
      options.log.info('the process that ran the simulated WeChat is gone: it runs here now', { url })
      if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
      return await stop()
    } catch (error) {
      if (!reported)
        options.log.warn('the simulated WeChat cannot be run in place of the process that is gone', { error })
      reported = true
      await lock.unlock()
    }
  }
}

async function openSandboxLock(dir: string) {
  await ensurePrivateDir(dir)
  return await openLock(join(dir, lockFile))
}

/** Returns the sandbox that another process runs for this folder; undefined if none does. */
export async function joinSandbox(dir: string): Promise<{ url: string } | undefined> {
  await using lock = await openSandboxLock(dir)
  return await findHolder(lock, dir)
}

async function findHolder(lock: FileLock, dir: string): Promise<{ url: string } | undefined> {
  // A process writes its address shortly after it takes the lock.
  for (let tries = 0; tries < 100; tries++) {
    if (await lock.tryLock()) return undefined
    const url = (await readText(join(dir, addressFile)))?.trim()
    if (url && (await isAnswering(url))) return { url }
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  throw new SvcError(
    'store_unavailable',
    'another process holds the sandbox of this directory and does not answer',
  )
}

async function isAnswering(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/phone/stats`, { signal: AbortSignal.timeout(2000) })
    await response.body?.cancel()
    return response.ok
  } catch {
    return false
  }
}
