/** Runs `svc agent`: logs in if that is needed, says who may talk, and runs the agents until a signal. */
import { mkdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { runAgent } from '../agent/agent.ts'
import type { Backend } from '../agent/backend.ts'
import type { AgentConfig } from '../agent/config.ts'
import { isForSandbox } from '../agent/isolation.ts'
import { environmentFor } from '../agent/process.ts'
import {
  type AgentSettings,
  parseAgentFile,
  settingNames,
  toAgentConfig,
  toCamelCase,
} from '../agent/settings.ts'
import { createBackend } from '../agent/start.ts'
import { localFilesOf } from '../config/local-files.ts'
import type { Config, Pace } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { Svc } from '../index.ts'
import { createDirectCall } from '../model/call.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import { adviceOf } from '../model/next-step.ts'
import { defaultSessionName, type Session, sessionKeyOf, sessionNotFoundError } from '../model/session.ts'
import { forgetLogin } from '../operations/accounts.ts'
import { verbs } from '../operations/tools.ts'
import { type Clock, endsWithin } from '../platform/clock.ts'
import { formatCount, formatList, quoteForShell } from '../platform/format.ts'
import type { Log } from '../platform/log.ts'
import { bypassProxyForLoopback } from '../platform/process.ts'
import { waitForAbort } from '../platform/signals.ts'
import { reasonOf } from '../platform/system-error.ts'
import { Tasks } from '../platform/tasks.ts'
import { askPerson } from './ask.ts'
import { type Command, keyedConfig, wordingOf } from './command.ts'
import { noteAddress, noteFailingTasks } from './listening.ts'
import { createLoginPrinter, followLogin, toLoginError } from './login.ts'
import { commandAddress, createAsk, openForCommand } from './open.ts'
import { createLinePrinter } from './print.ts'
import { openSandboxFor, serverLog, waitForStop } from './serving.ts'
import { type Io, oneLine } from './terminal.ts'

/** After a signal the agents end within this time. */
const stopGraceMs = 2500

export async function runAgents(command: Command): Promise<void> {
  const { io } = command
  const agents = (await readAgents(command)).map(agent => withOwnProgram(agent, io))
  const config = keyedConfig(command)
  const closing = new AbortController()
  void waitForStop(io).then(signal => closing.abort(new SvcError('shutting_down', `stopped by ${signal}`)))
  const log = await serverLog(config, command)
  const { basePath: dataFolder, pace } = config
  const tasks = new Tasks(io.clock)
  const { agents: folders } = localFilesOf(dataFolder)
  const ports = { agents, clock: io.clock, dataFolder, folders, pace, tasks }
  const started = await Promise.all(
    agents.map(async agent => {
      const own = { ...ports, log: log.child(agent.name) }
      return { agent, ports: own, backend: await createBackend(agent, own) }
    }),
  )
  bypassProxyForLoopback()
  await using stack = new AsyncDisposableStack()
  await claimDirectory(config)
  const isPhoneFree = command.getOptionValueSource('sandboxPort') !== 'cli'
  const sandbox = config.sandbox ? await openSandboxFor(config, log, stack, io, isPhoneFree) : undefined
  try {
    await logIn(agents, { config, command, sandbox, signal: closing.signal })
    if (closing.signal.aborted) return
    const svc = stack.use(await openLibrary(config, { wallClock: io.clock, log, sandbox, tasks }))
    noteFailingTasks(dataFolder, tasks, log, closing.signal)
    stack.defer(() => noteAddress(dataFolder))
    const printLine = createLinePrinter(io.out, config.logFormat)
    await printAgents(agents, svc, printLine, sandbox && `${sandbox.url}/phone`)
    const running = started.flatMap(({ agent, backend, ports }) => [
      runAgent(svc, backend, agent, ports, closing.signal),
      printMode(agent, backend, { ...ports, printLine }, closing.signal),
    ])
    // If one agent cannot go on, the others end too.
    const failed = Promise.all(running).catch((error: unknown) => {
      closing.abort()
      return { error }
    })
    await waitForAbort(closing.signal)
    log.info('stopping')
    await endsWithin(stopGraceMs, Promise.allSettled(running))
    const ended = await Promise.race([failed, undefined])
    if (ended && 'error' in ended) throw ended.error
  } catch (error) {
    if (!(closing.signal.aborted && error instanceof SvcError && error.code === 'shutting_down')) throw error
  }
}

const numbers = ['gather', 'minutes_per_turn', 'turns_per_day']

/** Reads the agents from the options, or from the file of --config. @throws SvcError `invalid_arguments` */
async function readAgents(command: Command): Promise<AgentConfig[]> {
  const flags = command.opts<Record<string, string | boolean | string[] | undefined>>()
  const { acp, config, model, openai, openaiKeyFile } = flags
  const { args } = command
  if (typeof config === 'string') {
    const others = ['model', 'openai_key_file', ...settingNames]
    const given = others.find(key => command.getOptionValueSource(toCamelCase(key)) === 'cli')
    if (given !== undefined || args.length > 0)
      throw badArgument(
        given === undefined ? '<command>' : given === 'commands' ? '--no-commands' : toFlag(given),
        'expected without --config',
        { hint: 'Write it into the file.' },
      )
    const path = resolve(config)
    const text = await readFile(path, 'utf8').catch(error => {
      throw badArgument('--config', `${path} cannot be read: ${reasonOf(error)}`)
    })
    return parseAgentFile(text, path)
  }
  if (typeof openai === 'string' && !/^https?:\/\/[^\s/]/.test(openai))
    throw badArgument('--openai', 'expected an http or https address, such as http://127.0.0.1:11434/v1')
  if (openai === undefined && (model !== undefined || openaiKeyFile !== undefined))
    throw badArgument(
      model === undefined ? '--openai-key-file' : '--model',
      'expected together with --openai',
    )
  if (openai !== undefined && model === undefined)
    throw badArgument('--model', 'expected together with --openai', { hint: 'ollama list names the models.' })
  if (openai !== undefined && (args.length > 0 || acp))
    throw badArgument('--openai', 'expected without a command and without --acp')
  if (openai === undefined && args.length === 0)
    throw badArgument('<command>', 'expected the command of an agent after "--"', {
      hint: 'For example: svc agent -- claude -p. To try it: svc agent --sandbox -- svc echo-agent',
    })
  const allow = Array.isArray(flags.allow) && flags.allow.includes('everyone') ? 'everyone' : flags.allow
  const settings: AgentSettings = {
    ...Object.fromEntries(settingNames.map(key => [key, flags[toCamelCase(key)]])),
    ...Object.fromEntries(numbers.map(key => [key, toNumber(flags[toCamelCase(key)])])),
    ...readFolders(flags.folder as string[] | undefined),
    allow,
    command: acp || openai ? undefined : args,
    acp: acp ? args : undefined,
    openai: openai && { url: openai, model, key_file: openaiKeyFile },
  }
  const nameOf = (key: string) => (['command', 'acp'].includes(key) ? '<command>' : toFlag(key))
  return [toAgentConfig(settings, { nameOf, folder: process.cwd() })]
}

/** Reads folders: one, or several with names. @throws SvcError `invalid_arguments` */
function readFolders(given: readonly string[] = []): AgentSettings {
  const [first] = given
  const named = given.map(one => /^(\p{L}[\p{L}\p{N}_-]{0,49})=(.+)$/su.exec(one) ?? [])
  if (first === undefined || (given.length === 1 && named[0]?.length === 0)) return { folder: first }
  const folders = Object.fromEntries(named.map(([, name = '', folder]) => [name, folder]))
  if (Object.keys(folders).length === given.length && !('' in folders)) return { folder: undefined, folders }
  throw badArgument('--folder', 'expected another name for each of several folders, such as work=~/work')
}

const toFlag = (key: string) => `--${key.replaceAll('_', '-')}`
const toNumber = (value: unknown) =>
  typeof value === 'string' && /^\d{1,9}(\.\d{1,9})?$/.test(value) ? Number(value) : value

/** An agent whose program is called svc, such as the echo agent, runs this program. */
function withOwnProgram(agent: AgentConfig, { program }: Io): AgentConfig {
  const { backend } = agent
  if (backend.kind === 'openai' || backend.command[0] !== 'svc') return agent
  return { ...agent, backend: { ...backend, command: [...program, ...backend.command.slice(1)] } }
}

interface LoginPlace {
  readonly config: Config
  readonly command: Command
  readonly sandbox: { url: string } | undefined
  readonly signal: AbortSignal
}

/**
 * Logs in each session that the agents name and that has no account; without names, one if none has. A login that an
 * earlier process left goes on.
 */
async function logIn(
  agents: readonly AgentConfig[],
  { config, command, sandbox, signal }: LoginPlace,
): Promise<void> {
  const { io } = command
  const call = {
    ...createDirectCall({ address: commandAddress(), signal }),
    ask: askPerson(io, () => signal),
  }
  const options = { createsDirectory: true as const, ...(sandbox && { openSandbox: async () => sandbox }) }
  await using opened = await openForCommand(config, io, options)
  const ask = createAsk(opened, call)
  const sessions = await ask(verbs.sessions, {})
  // A session that cannot be read may have an account.
  const isBare = ({ bot_id, poll_error }: Session) => bot_id === undefined && poll_error === undefined
  const accounts = sessions.filter(one => !isBare(one)).map(({ name }) => name)
  const there = new Set(accounts.map(sessionKeyOf))
  const named = agents.flatMap(({ session }) => session ?? [])
  const names = new Set(sessions.map(({ name }) => sessionKeyOf(name)))
  const unknown = there.size === 0 ? undefined : named.find(name => !names.has(sessionKeyOf(name)))
  if (unknown !== undefined)
    throw sessionNotFoundError(unknown, {
      hint: `There is ${formatList(accounts.map(quoteForShell), 10)}. To log in another account first: ${wordingOf(command).command(['login', unknown])}.`,
    })
  const [begun = defaultSessionName] = sessions.filter(isBare).map(({ name }) => name)
  const wanted = named.length > 0 ? named : there.size > 0 ? [] : [begun]
  for (const session_name of new Set(wanted)) {
    if (there.has(sessionKeyOf(session_name)) || signal.aborted) continue
    await io.out.write(`No account is logged in as "${oneLine(session_name)}".\n`)
    const print = createLoginPrinter(io, opened.phoneUrl)
    await ask(forgetLogin, { session: session_name })
    const status = await followLogin({ ask, signal }, { session_name }, print)
    if (status.status !== 'confirmed' && !signal.aborted) {
      const error = toLoginError(status, sandbox !== undefined, { session_name })
      throw new SvcError('not_connected', error.message, { hint: adviceOf(error, wordingOf(command)) })
    }
  }
}

const openLibrary = (
  config: Config,
  {
    log,
    sandbox,
    ...timing
  }: { wallClock: Clock; log: Log; sandbox: { url: string } | undefined; tasks: Tasks },
): Promise<Svc> => {
  const options = {
    basePath: config.basePath,
    ...(config.storeUrl === undefined ? { store: true } : { storeUrl: config.storeUrl }),
    mediaRoot: config.mediaRoot,
    storeMaxAgeDays: config.storeMaxAgeDays,
    storeMaxCount: config.storeMaxCount,
    auditDays: config.auditDays,
    pace: formatPace(config.pace),
    maxUploadBytes: config.maxUploadBytes,
    channelVersion: config.channelVersion,
    ...(config.secretKey !== undefined && { secretKey: config.secretKey }),
    ...(sandbox ? { sandboxUrl: sandbox.url } : { upstreamUrl: config.upstreamUrl, cdnUrl: config.cdnUrl }),
    log,
  }
  return Svc.open(options, timing)
}

/** Writes a pace as options do. */
function formatPace(pace: Pace | 'off'): string {
  if (pace === 'off') return pace
  const parts = [
    ...(Number.isFinite(pace.perSecond) ? [`${pace.perSecond}/s`] : []),
    ...(Number.isFinite(pace.perWindow) ? [`${pace.perWindow}/${pace.windowMs / 1000}s`] : []),
  ]
  return parts.join(',') || 'off'
}

type PrintLine = ReturnType<typeof createLinePrinter>

/** Says for each agent who may talk with it. */
async function printAgents(
  agents: readonly AgentConfig[],
  svc: Svc,
  printLine: PrintLine,
  phoneUrl: string | undefined,
): Promise<void> {
  const sessions = await svc.sessions()
  const invitations = new Map((await svc.invitations.list()).map(one => [one.id, one]))
  for (const agent of agents) {
    const near = sessions.filter(({ name }) => sessionKeyOf(agent.session ?? name) === sessionKeyOf(name))
    const own = near.filter(({ invitation }) => invitation === undefined)
    for (const session of own) printLine({ text: describeAccess(agent, session, own.length === 1) })
    const guests = near.filter(({ invitation = '' }) => invitations.get(invitation)?.agent === agent.name)
    if (guests.length > 0)
      printLine({ text: `agent "${agent.name}" answers ${formatCount(guests.length, 'guest')}` })
    const withheld = guests.length > 0 || agent.isolate ? listWithheld(agent) : []
    if (withheld.length > 0)
      printLine({
        text: `agent "${agent.name}" gets none of these variables in its sandbox: ${formatList(withheld, 10)}. To give it one: --env NAME`,
      })
  }
  const names = agents.map(({ name }) => name)
  for (const { agent, chosen, session, user_id } of await svc.agents.conversations({ limit: 1000 }))
    if (chosen && names.includes(agent))
      printLine({ text: `agent "${agent}" is the one that ${user_id} chose in session ${oneLine(session)}` })
  if (phoneUrl) printLine({ text: `write to it in the chat at ${phoneUrl}`, url: phoneUrl })
}

/** Lists the variables that an agent does not get in a sandbox, those that look like secrets first. */
function listWithheld({ backend, env: given }: AgentConfig): string[] {
  if (backend.kind === 'openai') return []
  const names = Object.keys(environmentFor(undefined, given))
  const isSecret = (name: string) => /KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL/i.test(name)
  return names
    .filter(name => !['HOME', 'TMPDIR'].includes(name) && !isForSandbox(name, backend.command, given))
    .sort((a, b) => Number(isSecret(b)) - Number(isSecret(a)) || (a < b ? -1 : 1))
}

/**
 * Says in which mode an agent works. An agent that cannot be started now may start later, unless it lacks the mode.
 */
async function printMode(
  { folder, name }: AgentConfig,
  backend: Backend,
  { folders, log, printLine }: { folders: string; log: Log; printLine: PrintLine },
  signal: AbortSignal,
): Promise<void> {
  if (!backend.describe) return
  const place = folder ?? join(folders, name)
  await mkdir(place, { recursive: true, mode: 0o700 })
  try {
    printLine({ text: `agent "${name}": ${await backend.describe(place, signal)}` })
  } catch (error) {
    if (isSvcError(error, 'invalid_arguments')) throw error
    if (!signal.aborted)
      log.warn('the agent cannot be started; its turns will fail until that is mended', { error })
  }
}

/** @param isOnly whether it is the only account of the agent: then its owner is the operator */
function describeAccess(agent: AgentConfig, { bot_id, name: session, user_id }: Session, isOnly: boolean) {
  const { allow, approve, name, operator, users } = agent
  const approver = operator ?? (isOnly ? 'its owner' : undefined)
  const approves = !approve
    ? ''
    : approver === undefined
      ? ', and its answers wait for approval in the panel (--operator names a person)'
      : `, and ${oneLine(approver)} approves the answers to ${approve}`
  const bot = bot_id ? ` (${oneLine(bot_id)})` : ''
  const where = `agent "${name}" answers in session ${oneLine(session)}${bot}${approves}`
  if (allow === 'everyone') return `${where}: everyone may talk with it`
  const people = users ? Object.keys(users) : [...(user_id ? [`its owner ${user_id}`] : []), ...allow]
  if (people.length === 0)
    return `${where}: its owner is not known, so nobody may talk with it; log in again, or use --allow`
  return `${where}: only ${people.map(oneLine).join(', ')} may talk with it`
}
