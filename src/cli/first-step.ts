/** The line above the addresses of a service: what to do next while no account is connected. */
import type { Config } from '../config.ts'
import type { RunningGateway } from '../gateway/gateway.ts'
import { svcCommand } from '../inspect/advised-commands.ts'
import { createDirectCall } from '../model/call.ts'
import type { Session } from '../model/session.ts'
import { invoke } from '../operations/gate.ts'
import { verbs } from '../operations/tools.ts'
import { endsWithin } from '../platform/clock.ts'
import { quoteForShell } from '../platform/format.ts'
import type { Log } from '../platform/log.ts'
import type { ServiceLine } from './print.ts'
import { oneLine } from './terminal.ts'

/** Where a person can add an account. */
export interface ServicePages {
  /** URL of the panel; '' if its sign-in link, which another line shows, leads to it. */
  readonly panel?: string | undefined
  /** URL of the docs, if their calls need no token. */
  readonly docs?: string | undefined
}

/** If the store does not answer in this time, the service starts without the line. */
const patienceMs = 2000

/** Returns the line; none if an account is connected, or if the store cannot be read now. */
export async function listFirstSteps(
  { config, gateway, log, sandbox }: { config: Config; gateway: RunningGateway; log: Log; sandbox: unknown },
  pages: ServicePages,
): Promise<ServiceLine[]> {
  let sessions: Session[] | undefined
  const asked = invoke(verbs.sessions, gateway, {}, createDirectCall(), log).then(
    found => {
      sessions = found
    },
    error => log.warn('the sessions cannot be read', { error }),
  )
  await endsWithin(patienceMs, asked)
  const [first] = sessions ?? []
  if (!sessions || sessions.some(({ status }) => status === 'connected')) return []
  if (!first)
    return [describeFirstLogin(pages, svcCommand('login', config.basePath, config.sandbox), sandbox)]
  const again = svcCommand(`login ${quoteForShell(first.name)}`, config.basePath, config.sandbox)
  return [
    { text: `No session works: ${oneLine(first.name)} is ${first.status}. Log in again with: ${again}` },
  ]
}

function describeFirstLogin({ panel, docs }: ServicePages, command: string, sandbox: unknown): ServiceLine {
  if (panel) return { text: `Open ${panel} and press "Add the first account"`, url: panel }
  if (panel === '') return { text: 'Sign in with the link below and press "Add the first account"' }
  const where = sandbox ? 'on the phone' : 'in WeChat'
  if (docs === undefined) return { text: `Run ${command}, and scan its QR code ${where}` }
  return { text: `Open ${docs}, call the tool login, and scan its QR code ${where}`, url: docs }
}
