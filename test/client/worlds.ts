/** The two ways to svc in a program: an opened data directory, and a running service. */
import { Svc, type SvcApi } from '../../src/index.ts'
import { createLog } from '../../src/platform/log.ts'
import { withGateway } from '../support/gateway.ts'
import { withLibrary } from '../support/library.ts'
import { restOf } from '../support/rest.ts'
import type { TestSandbox } from '../support/sandbox.ts'
import { until } from '../support/until.ts'

export interface World extends AsyncDisposable {
  readonly sandbox: TestSandbox
  readonly dir: string
  readonly bot: { readonly bot_id: string; readonly user_id: string }
  /** Log lines of all programs. */
  readonly lines: string[]
  /** Opens svc as another program would. */
  open(): Promise<SvcApi>
  until: typeof until extends (what: string, ms: number, look: infer L) => unknown
    ? (what: string, look: L) => Promise<unknown>
    : never
}

async function opened(): Promise<World> {
  const t = await withLibrary()
  // As a service does: the messages come while no program runs.
  const poller = await t.open({ store: true })
  await poller.runBackground()
  return {
    sandbox: t.sandbox,
    dir: t.dir,
    bot: t.bots.get('default')!,
    lines: t.lines,
    open: () => t.open({ store: true }),
    until: (what, look) => until(what, 30_000, look),
    [Symbol.asyncDispose]: () => t[Symbol.asyncDispose](),
  }
}

const masterToken = 'correct-horse-battery-staple'

export async function connected(): Promise<World & { readonly url: string }> {
  const t = await withGateway()
  const rest = await restOf(t.gateway, { token: masterToken })
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const programs: SvcApi[] = []
  return {
    sandbox: t.sandbox,
    dir: t.dir,
    bot: t.bots.get('default')!,
    lines,
    url: rest.url,
    async open() {
      const svc = await Svc.connect(rest.url, { key: masterToken, log, mediaRoot: t.mediaRoot })
      programs.push(svc)
      return svc
    },
    until: (what, look) => until(what, 30_000, look),
    async [Symbol.asyncDispose]() {
      await Promise.all(programs.map(svc => svc.close()))
      await rest[Symbol.asyncDispose]()
      await t[Symbol.asyncDispose]()
    },
  }
}

export const worlds: [name: string, create: () => Promise<World>][] = [
  ['Svc.open', opened],
  ['Svc.connect', connected],
]
