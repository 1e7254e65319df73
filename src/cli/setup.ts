/** `svc setup`: from what was typed to what is written, and what to do next. */

import { type Config, readConfig, spelledOut, userFolders } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { isCompiled, ownCommand } from '../platform/process.ts'
import { isLoopback } from '../server/auth.ts'
import { type Client, clients, type Server } from '../setup/clients.ts'
import {
  lastingCommand,
  preview,
  type SetupRequest,
  type SetupResult,
  setUp,
  takeBack,
} from '../setup/setup.ts'
import { typedUrl } from './command.ts'
import { print } from './print.ts'
import { offeredTools } from './serve-mcp.ts'

/** What was typed. */
export interface SetupFlags {
  readonly project?: boolean
  readonly url?: string
  readonly tokenEnv?: string | true
  readonly name: string
  readonly hook?: boolean
  readonly remove?: boolean
  readonly print?: boolean
  readonly force?: boolean
  readonly basePath?: string
  readonly sandbox?: boolean
  readonly sandboxPort?: string
  readonly confirmSend?: boolean
  readonly anyFile?: boolean
  readonly structured?: boolean
  readonly tools?: string
}

const usualVariable = 'SVC_TOKEN'

/** Runs the command. @throws SvcError of what was typed, or of a file that was left alone */
export async function runSetup(clientName: string, flags: SetupFlags): Promise<void> {
  const client = clients.find(({ name }) => name === clientName)
  if (!client) throw new SvcError('invalid_arguments', `there is no client "${clientName}"`)
  const request = requestOf(client, flags)
  if (flags.print) return show(await preview(request))
  if (flags.remove) {
    for (const result of await takeBack(request)) tell(result, request, 'not')
    return
  }
  try {
    for (const result of await setUp(request)) tell(result, request, 'already')
  } catch (error) {
    // What could not be written can still be pasted.
    if (error instanceof SvcError && error.code === 'forbidden') show(await preview(request))
    throw error
  }
  print(`next: ${(flags.project && client.nextOfProject) || client.next}`)
  if ('url' in request.server && request.server.tokenVariable !== undefined)
    print(
      client.tokenInEntry
        ? 'next: put the token of the service into the entry, as its SVC_TOKEN.'
        : `next: let ${client.title} have the token of the service, as ${request.server.tokenVariable}.`,
    )
  if ('command' in request.server && !request.server.command.includes('--any-file'))
    print(
      `files: it may name those in the folder that ${client.title} works in (not in your home folder itself) and in svc's media folder; --any-file opens the rest.`,
    )
  print(`then ask it: "Which WeChat sessions are there? If there is none, log me in."`)
}

/** How svc serves the client, which is nothing to the hook. */
const howServed = ['confirmSend', 'anyFile', 'structured', 'tools', 'sandboxPort'] as const

function requestOf(client: Client, flags: SetupFlags): SetupRequest {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(flags.name))
    throw badArgument('--name', 'expected 1 to 64 letters (a-z), digits, "_" or "-"')
  const folders = userFolders()
  const own = isCompiled ? lastingCommand(ownCommand(), folders.path) : ownCommand()
  // What was set here goes along: the client has neither this folder nor this environment.
  const given = { ...flags }
  const config = readConfig(given)
  offeredTools(config.tools)
  const spelled = (without: readonly (keyof Config)[] = []) =>
    spelledOut('setup', given, config, { without }).args
  const isHookWanted = flags.hook || (flags.remove && client.name === 'claude-code')
  return {
    client,
    scope: flags.project ? 'project' : 'user',
    name: flags.name,
    server: serverOf(flags, [...own, 'mcp', '-t', 'stdio'], spelled()),
    ...(isHookWanted && { hook: [...own, 'hook-poll', ...spelled(howServed)] }),
    force: flags.force ?? false,
    folders,
  }
}

function serverOf(flags: SetupFlags, start: readonly string[], options: readonly string[]): Server {
  const { url, tokenEnv } = flags
  const refuse = (is: unknown, flag: string, problem: string, hint: string) => {
    if (is) throw badArgument(flag, problem, { hint })
  }
  if (url === undefined) {
    refuse(
      tokenEnv,
      '--token-env',
      'expected together with --url',
      'Otherwise svc is started by the client itself.',
    )
    return { command: [...start, ...options] }
  }
  const parsed = typedUrl(url, '/mcp')
  const there = 'The service at that address decides it.'
  refuse(flags.confirmSend, '--confirm-send', 'expected without --url', there)
  refuse(flags.anyFile, '--any-file', 'expected without --url', there)
  refuse(flags.structured, '--structured', 'expected without --url', there)
  refuse(flags.tools, '--tools', 'expected without --url', there)
  const variable = tokenEnv === true ? usualVariable : tokenEnv
  const isName = variable === undefined || /^[A-Za-z_][A-Za-z0-9_]*$/.test(variable)
  const never = 'The token itself does not belong into settings.'
  refuse(!isName, '--token-env', 'expected the name of an environment variable', never)
  // A service that others can reach asks everybody for its token.
  const isNeeded = !isLoopback(new URL(parsed).hostname)
  const tokenVariable = variable ?? (isNeeded ? usualVariable : undefined)
  return { url: parsed, bridge: [...start, '--url', parsed], tokenVariable }
}

function show(entries: readonly { path: string; snippet: string }[]): void {
  for (const { path, snippet } of entries) print(`${path}:\n${snippet}\n`)
}

function tell({ did, path, what }: SetupResult, { name }: SetupRequest, isThere: string): void {
  const thing = what === 'hook' ? 'the prompt hook' : `the server "${name}"`
  const end = { added: `in ${path}`, changed: `in ${path}`, removed: `from ${path}` }
  print(
    did === 'nothing' ? `nothing to do: ${thing} is ${isThere} in ${path}` : `${did} ${thing} ${end[did]}`,
  )
}
