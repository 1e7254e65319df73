/** The one way of the commands that serve: open, bind, say where, wait for the end, stop cleanly. */
import { join } from 'node:path'
import { type Config, isJournalled } from '../config.ts'
import { createLog } from '../platform/log.ts'
import { onStopSignals } from '../platform/process.ts'
import { reachable } from '../platform/serve.ts'
import { version } from '../version.ts'
import { print } from './print.ts'
import { announce, graceMs, listen, notePanel, type Opened, openMetrics, openService } from './serving.ts'

/** What a command serves besides the panel and the metrics. */
export interface Door {
  /** Where it is, as it is told once everything runs. */
  readonly lines: readonly string[]
  /** For the panel, to lead to it. */
  readonly links?: { rest_url?: string }
  /** Runs when all is told. */
  running?(phoneUrl: string | undefined): Promise<void> | void
  /** Resolves when it ends by itself, with the reason. */
  readonly ended?: Promise<string>
  /** Lets answers under way finish, and closes. */
  stop(): unknown
}

/** Serves until SIGINT, SIGTERM, or the door's own end. `options` as of `openService`. */
export async function runService(
  given: Config,
  open: (opened: Opened) => Promise<Door>,
  options?: { listens?: boolean; isPhoneFree?: boolean },
): Promise<void> {
  const log = createLog(given.logLevel, undefined, given.logFormat)
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  const opened = await openService(given, log, stack, options)
  const door = await open(opened)
  const { gateway, sandbox } = opened
  const phoneUrl = sandbox && `${sandbox.url}/phone`
  const panel = await openPanel(opened, { ...door.links, ...(phoneUrl && { sandbox_phone: phoneUrl }) })
  const metrics = await openMetrics(opened)
  await gateway.start()
  // Of a client's child the standard error is a log: no token in there.
  announce(door.ended ? { ...opened, generated: undefined } : opened, [...door.lines, ...metrics], panel)
  await door.running?.(phoneUrl)
  log.info('stopping', { reason: await Promise.race([stopping, ...(door.ended ? [door.ended] : [])]) })
  await Promise.all([door.stop(), panel?.stop()])
}

/** `svc admin`: the panel alone. */
export const serveAdmin = (config: Config): Promise<void> =>
  runService(config, async () => ({ lines: [], stop() {} }))

/** Resolves with the first signal to stop. */
export const stopSignal = () => new Promise<string>(resolve => onStopSignals(resolve))

/** Where the built panel lies: inside the binary, or beside the sources. */
const folders = [join(import.meta.dirname, 'panel'), join(import.meta.dirname, '../../dist/panel')]

/** A panel that listens. */
interface RunningPanel {
  /** Prints where it is, and the link that signs in where that is needed. */
  announce(): void
  /** Ends live streams, lets answers under way finish, closes. */
  stop(): Promise<void>
}

/**
 * Serves the panel on `--admin-port`; nothing without one.
 *
 * @param links addresses worth a link
 */
async function openPanel(
  { config, gateway, log, stack }: Opened,
  links: { rest_url?: string; sandbox_phone?: string },
): Promise<RunningPanel | undefined> {
  if (config.adminPort === undefined) return undefined
  const { createAdminApp } = await import('../server/admin.ts')
  const app = createAdminApp({ gateway, config, log, version, folders, links })
  const server = await listen(config, '--admin-port', config.adminPort, (request, peer) =>
    app.fetch(request, peer),
  )
  stack.defer(() => server.stop(0))
  await notePanel(config.basePath, reachable(server.url))
  const missing = await app.pageMissing()
  const path = await app.signInLink()
  return {
    announce() {
      if (missing) log.warn('there is no panel to show', { why: missing.message, hint: missing.hint })
      print(`admin on ${server.url}`)
      if (path === undefined || isJournalled()) return
      const here = reachable(server.url)
      const elsewhere =
        here === server.url
          ? ''
          : ` (from another machine: with this one's address for ${new URL(here).hostname})`
      print(`sign in once with ${here}${path}${elsewhere}`)
    },
    async stop() {
      app.beginShutdown()
      await server.stop(graceMs)
    },
  }
}
