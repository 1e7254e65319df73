/** The admin panel beside, or instead of, the other doors: opened, bound, announced, stopped. */

import { join } from 'node:path'
import { type Config, isJournalled } from '../config.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { createLog, type Log } from '../platform/log.ts'
import { reachable } from '../platform/serve.ts'
import { version } from '../version.ts'
import { print } from './print.ts'
import {
  announce,
  graceMs,
  linksOf,
  listen,
  notePanel,
  openMetrics,
  openService,
  stopSignal,
} from './serving.ts'

/** Where the built panel lies: inside the binary, or beside the sources. */
const folders = [join(import.meta.dirname, 'panel'), join(import.meta.dirname, '../../dist/panel')]

export interface PanelParts {
  config: Config
  gateway: RunningGateway
  log: Log
  /** Closes what is opened here. */
  stack: AsyncDisposableStack
  /** Addresses worth a link. */
  links: { rest_url?: string; sandbox_phone?: string }
}

/** A panel that listens. */
export interface RunningPanel {
  /** Prints where it is, and the link that signs in where that is needed. */
  announce(): void
  /** Ends live streams, lets answers under way finish, closes. */
  stop(): Promise<void>
}

/** Serves the panel on `--admin-port`; nothing without one. */
export async function openPanel(parts: PanelParts): Promise<RunningPanel | undefined> {
  const { config, gateway, log, stack, links } = parts
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

/** `svc admin`: the panel alone, until SIGINT or SIGTERM. */
export async function serveAdmin(given: Config): Promise<void> {
  const log = createLog(given.logLevel, undefined, given.logFormat)
  const stopping = stopSignal()
  await using stack = new AsyncDisposableStack()
  const opened = await openService(given, log, stack)
  const { config, gateway, sandbox } = opened
  const panel = await openPanel({ config, gateway, log, stack, links: linksOf(sandbox) })
  const metrics = await openMetrics(opened, log, stack)
  await gateway.start()
  announce(opened, metrics, panel)
  log.info('stopping', { signal: await stopping })
  await panel?.stop()
}
