/** Declares and runs `svc health`: asks a running service once, prints one line, and sets the exit status. */
import type { ServiceAddress } from '../../config/notes.ts'
import { type Config, type ConfigDefaults, type Flags, writeOptions } from '../../config.ts'
import {
  askHealth,
  findConfigured,
  type HealthAnswer,
  listNotedAddresses,
  servesAnotherDirectory,
} from '../../inspect/healthz.ts'
import { badArgument } from '../../model/error.ts'
import { systemClock } from '../../platform/clock.ts'
import { quoteForShell } from '../../platform/format.ts'
import { bypassProxyForLoopback } from '../../platform/process.ts'
import { type Command, type CommandSpec, configFrom, directoryFlagsOf } from '../command.ts'
import { writeResult } from '../print.ts'
import { oneLine } from '../terminal.ts'
import { parseServiceUrl } from '../typed-url.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'health',
    summary: 'ask a running service whether it works',
    about:
      'Ask GET /healthz of a running service and print the answer as one line, for HEALTHCHECK in containers and for monitoring. Needs no token. Without an address it finds the service through its data directory. Waits at most 2 seconds.',
    config: 'health',
    noSandboxHint: 'done',
    ownHelp: {
      host: 'address that the service listens on (127.0.0.1)',
      port: 'port of the service (from its data directory, else 8000)',
      socket: 'Unix socket of the service, instead of host and port',
      basePath:
        'data directory of the service, which says where it listens (~/.svc, with --sandbox ~/.svc-sandbox)',
      sandbox: 'for a service with the simulated WeChat',
    },
    addOptions: command =>
      command.option('--url <url>', 'full address of the service instead, such as https://svc.example.org'),
    jsonHelp: 'print one JSON object',
    examples: [
      ['svc health', 'on this machine'],
      ['HEALTHCHECK CMD ["svc", "health"]', 'in a Dockerfile'],
    ],
    helpFooter:
      'For this command 0 means that the service works, and 1 that it does not work or does not answer. A degraded service (an account that is not connected, polls that fail) also gives 0, since a restart would not help. If you give no address and a service of another data directory answers, that is 1.',
    run: runHealth,
  },
]

const deadlineMs = 2000

/** Runs the command. @returns the exit status: 0 if the service works */
async function runHealth(command: Command): Promise<0 | 1> {
  const { url: typedAddress } = command.opts<{ url?: string }>()
  bypassProxyForLoopback()
  const address: { unnamed?: string } & ServiceAddress =
    typedAddress === undefined ? await findAddress(command) : { url: parseServiceUrl(typedAddress) }
  const { url, unnamed } = address
  const answer = await askHealth(address, deadlineMs)
  const other = await findUnservedDirectory(answer, unnamed)
  const healthy = answer.kind === 'svc' && answer.status === 200 && other === undefined
  // The words are those of GET /healthz. A degraded service works, and a restart would not help.
  const word = !healthy ? 'unhealthy' : answer.seen.status === 'ok' ? 'healthy' : 'degraded'
  const what = describeHealth(answer, other)
  // With --url the service may be on another machine, so no command to start it is proposed.
  const next =
    answer.kind === 'nobody' && typedAddress === undefined
      ? `; to start it: ${formatStartLine(command)}. If it listens on another port, name it with --port.`
      : other === undefined
        ? ''
        : `; to start one: ${formatStartLine(command)} --port 0${directoryFlagsOf(command).startsWith(' --sandbox') ? ' --sandbox-port 0' : ''}`
  const report = { healthy, url, what, health: answer.kind === 'svc' ? answer.seen : undefined }
  await writeResult(command, report, `${word}: ${oneLine(what)} (${url})${next}\n`)
  return healthy ? 0 : 1
}

/**
 * Returns `unnamed` if the service that answers serves another data directory.
 *
 * @param unnamed data directory that names no running service, from `findAddress`
 */
export async function findUnservedDirectory(
  answer: HealthAnswer,
  unnamed: string | undefined,
): Promise<string | undefined> {
  if (unnamed === undefined || answer.kind !== 'svc') return undefined
  const { createInspection } = await import('../../inspect/data-directory.ts')
  const polling = await createInspection(unnamed)
    .checkPolling(systemClock)
    .catch(() => undefined)
  return servesAnotherDirectory(answer.seen, polling) ? unnamed : undefined
}

/** Formats the command that starts the service in question. */
function formatStartLine(command: Command): string {
  const without = ['basePath', 'sandbox'] as const
  const { args } = writeOptions('health', command.opts<Flags>(), settingsOf(command), {
    without,
    env: command.io.env,
  })
  return [`svc openapi${directoryFlagsOf(command)}`, ...args.map(quoteForShell)].join(' ')
}

/** Reads the settings. The phone's port is not used here, so a clash with it must not be an error. */
const settingsOf = (command: Command, usual: ConfigDefaults = {}) =>
  configFrom(command, { sandboxPort: '0' }, usual)

/**
 * Returns true if neither a flag nor the environment says where the service listens.
 *
 * @param read reads the settings with these defaults
 */
export function isAddressUnset(read: (usual: { port: string; host: string }) => Config): boolean {
  const nowhere = { port: '0', host: '0.0.0.0' }
  const { host, port, socket } = read(nowhere)
  return socket === undefined && port === 0 && host === nowhere.host
}

/**
 * Returns the service's address, and as `unnamed` the data directory if it should name the address but does
 * not.
 */
async function findAddress(command: Command): Promise<ServiceAddress & { unnamed?: string }> {
  const config = settingsOf(command)
  const isUnset = isAddressUnset(usual => settingsOf(command, usual))
  if (isUnset) {
    const { rejectForeign } = await import('../../inspect/data-directory.ts')
    await rejectForeign(config)
    const [noted] = await listNotedAddresses(config.basePath)
    if (noted) return noted
  }
  if (config.port === 0 && config.socket === undefined) {
    throw badArgument('--port', 'expected the port the service listens on, got 0', {
      hint: 'The service prints it in the line "listening on …".',
    })
  }
  // A service whose store is in a database has no directory to compare.
  const isShared = config.storeUrl !== undefined || config.storeUrlFile !== undefined
  return { ...(await findConfigured(config)), ...(isUnset && !isShared && { unnamed: config.basePath }) }
}

/**
 * Describes the answer for people.
 *
 * @param other the caller's data directory, if the service that answered serves another one
 */
export function describeHealth(answer: HealthAnswer, other?: string): string {
  switch (answer.kind) {
    case 'svc': {
      const { version, role, stalled, sessions, connected, failing, store, disk, trouble } = answer.seen
      const { failing_tasks = [] } = answer.seen
      if (trouble && store !== 'ok')
        return `svc ${version} does not work: ${trouble.message}. ${trouble.hint}`
      const work =
        role === 'poller'
          ? 'polls'
          : stalled
            ? 'follows a process that is stalled'
            : 'follows another process'
      const failed = failing ? `, polls of ${failing} fail` : ''
      const but = store === 'ok' ? '' : ', its message store does not work'
      // Versions without this check leave `disk` out.
      const low = disk === 'low' ? '; its disk is nearly full, so uploads and downloads are refused' : ''
      const whose =
        other === undefined ? '' : `; it is of another data directory: no service runs on ${other}`
      const who = sessions === 0 ? 'nobody is logged in' : `${connected} of ${sessions} connected`
      const tasks =
        failing_tasks.length > 0 ? `; work in the background fails: ${failing_tasks.join(', ')}` : ''
      const slow = trouble ? `; ${trouble.message}. ${trouble.hint}` : ''
      return `svc ${version} ${work}, ${who}${failed}${but}${low}${tasks}${slow}${whose}`
    }
    case 'stranger':
      return 'what answers there is not svc'
    case 'silent':
      return `no answer within ${deadlineMs / 1000} s`
    case 'nobody':
      return 'nothing listens there'
    default:
      return `it cannot be reached, ${answer.code}`
  }
}
