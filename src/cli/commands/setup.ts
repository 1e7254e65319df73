/** Declares and runs `svc setup`: writes an agent's settings and prints what to do next. */

import { withSecrets } from '../../config/secrets.ts'
import { type Config, type Flags, findUserFolders, writeOptions } from '../../config.ts'
import { badArgument, SvcError } from '../../model/error.ts'
import { isUserId } from '../../model/user-id.ts'
import { failureTextOf } from '../../platform/fetch.ts'
import { quoteForShell } from '../../platform/format.ts'
import { bypassProxyForLoopback } from '../../platform/process.ts'
import { isLoopback } from '../../platform/serve.ts'
import { readKeyFile } from '../../server/token.ts'
import { type Client, clients, type McpTarget } from '../../setup/clients.ts'
import { preview, type SetupRequest, type SetupResult, setUp, takeBack } from '../../setup/setup.ts'
import { canWake, describeTrial, describeWake } from '../../setup/wake.ts'
import type { KnownNames } from '../../storage/inspection.ts'
import { type Command, type CommandSpec, configFrom, createChoice } from '../command.ts'
import { ownProgramOf } from '../service-plan.ts'
import { colours, type Io, type Output } from '../terminal.ts'
import { parseMcpUrl, rejectBesideUrl } from '../typed-url.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'setup',
    summary: 'add svc to the MCP settings of an agent, or remove it',
    about:
      "Add svc to the MCP settings of an agent, or remove it, and say what to do next. Your own entries and comments stay; a file that svc cannot read safely is not changed. The client then starts 'svc mcp' itself, on the data directory given here.",
    config: 'setup',
    addOptions: command =>
      command
        .addArgument(
          createChoice(
            '<client>',
            'the agent',
            clients.map(({ name }) => name),
          ),
        )
        .option('--project', 'only for the project in this folder, if the client has such settings')
        .option(
          '--url <url>',
          'use a running service at this address, such as http://127.0.0.1:8000 (/mcp is added); without it the client starts svc itself',
        )
        .option(
          '--token-env [variable]',
          'with --url: the client sends the token in this environment variable (default: SVC_TOKEN); without this option it does so only for other machines; claude-desktop and cline read no variables, so their entry has a place for the token itself',
        )
        .option('--name <name>', 'name of the entry', 'svc')
        .option('--hook', 'Claude Code: also show new messages with each prompt (svc hook-poll)')
        .option(
          '--wake',
          'Claude Code and Codex: also let a new message wake an open session (svc recv --follow --brief)',
        )
        .option(
          '--ask',
          'Claude Code: also ask the person of --to on WeChat what it asks on its screen (svc hook-ask)',
        )
        .option('--to <person>', 'with --ask: who is asked, by name or user id')
        .option('--remove', 'remove the entry, the hooks, and what wakes it')
        .option('--print', 'only show the entry and the file it would be written to')
        .option('--force', 'replace or remove an entry of that name even if svc did not write it'),
    examples: [
      ['svc setup claude-code', 'for all projects of this user'],
      ['svc setup cursor --print --sandbox', 'only look, with the simulated WeChat'],
      ['svc setup vscode --url http://127.0.0.1:8000/mcp', 'use a running svc openapi'],
      ['svc setup codex --key-file ~/.codex/svc.key', 'only what the key in that file may do'],
      ['svc setup claude-code --wake', 'and each new message wakes an idle session'],
      ['svc setup claude-code --ask --to Mum', 'and Mum may answer its permission prompts on WeChat'],
      ['svc setup claude-code --remove', 'remove it'],
    ],
    run: runSetup,
  },
]

/** Typed options of the command itself. */
interface SetupFlags {
  readonly project?: boolean
  readonly url?: string
  readonly tokenEnv?: string | true
  readonly name: string
  readonly hook?: boolean
  readonly wake?: boolean
  readonly ask?: boolean
  readonly to?: string
  readonly remove?: boolean
  readonly print?: boolean
  readonly force?: boolean
}

const defaultTokenVariable = 'SVC_TOKEN'

/** Runs the command. @throws SvcError for wrong options, or for a file that was not changed */
async function runSetup(command: Command): Promise<void> {
  const flags = command.opts<SetupFlags>()
  const { print } = command.io.out
  const client = clients.find(({ name }) => name === command.args[0])
  if (!client) throw badArgument('<client>', 'expected a client that svc knows')
  const config = configFrom(command)
  if (!flags.remove) {
    const { rejectForeign } = await import('../../inspect/data-directory.ts')
    await rejectForeign(config)
  }
  const request = await requestOf(client, flags, config, command)
  if (config.keyFile !== undefined && !flags.remove) readKeyFile(config.keyFile)
  if (flags.print) {
    printEntries(await preview(request), print)
    // On stderr, so that stdout has only the entry to paste.
    if (!flags.remove) await printMore(request, flags, config, { out: command.io.err, err: command.io.err })
    return
  }
  if (flags.remove) {
    for (const result of await takeBack(request)) print(describeResult(result, request, 'not'))
    return
  }
  try {
    for (const result of await setUp(request)) print(describeResult(result, request, 'already'))
  } catch (error) {
    // You can still paste an entry that could not be written.
    if (error instanceof SvcError && error.code === 'forbidden') printEntries(await preview(request), print)
    throw error
  }
  print(`next: ${(flags.project && client.projectNext) || client.next}`)
  if (flags.wake) print(describeWake(client, request.folders))
  await printMore(request, flags, config, command.io)
  print(`then ask it: "Which WeChat sessions are there? If there is none, log me in."`)
  if (flags.wake) print(describeTrial(client))
}

/** Prints further steps and likely mistakes of an entry that was written or printed. */
async function printMore(
  { client, server }: SetupRequest,
  { to, url }: SetupFlags,
  config: Config,
  io: Pick<Io, 'out' | 'err'>,
): Promise<void> {
  const { anyFile, keyFile } = config
  const { print } = io.out
  if ('url' in server && server.tokenVariable !== undefined)
    print(
      client.tokenInEntry
        ? 'next: put the token of the service into the entry, as its SVC_TOKEN.'
        : `next: set ${server.tokenVariable} to the token of the service where ${client.title} starts.`,
    )
  if (url !== undefined) {
    const hasToken = keyFile !== undefined || ('url' in server && server.tokenVariable !== undefined)
    return checkAddress(url, hasToken, io)
  }
  if (!anyFile)
    print(
      `files: it may use files in the folder that ${client.title} works in (not in your home folder itself) and in svc's media folder; --any-file allows all others.`,
    )
  const { keys, users } = await readNames(config)
  if (to !== undefined && !isUserId(to) && !users.some(({ name }) => name.toLowerCase() === to.toLowerCase()))
    print(
      `ask: nobody is named ${to} yet, so nobody is asked. Give the name: svc users name ID ${quoteForShell(to)}`,
    )
  if (keyFile === undefined && keys.length > 0)
    print(
      `keys: the client starts svc as your user, so it needs no key and may use every tool; with --key-file FILE it may do only what the key in that file may do.`,
    )
}

/** Returns the names in the store; none if it cannot be read. */
async function readNames(config: Config): Promise<Pick<KnownNames, 'keys' | 'users'>> {
  const { openInspection } = await import('../../inspect/data-directory.ts')
  try {
    const stored = await openInspection(withSecrets(config))
    return await stored.readNames()
  } catch {
    return { keys: [], users: [] }
  }
}

/**
 * Statuses with which svc's MCP interface may answer a plain GET: no token, no session, a Host that it does
 * not know.
 */
const mcpStatuses: ReadonlySet<number> = new Set([400, 401, 403, 405, 406, 429])

/** Prints the final address if it differs from the typed one, and warnings about it. */
async function checkAddress(
  typed: string,
  hasToken: boolean,
  { out: { print }, err }: Pick<Io, 'out' | 'err'>,
): Promise<void> {
  const url = parseMcpUrl(typed)
  if (url !== typed.replace(/\/+$/, '')) print(`note: the address is ${url}, where svc serves MCP.`)
  const status = await fetchStatus(url)
  if (status === 401 && !hasToken)
    print(
      'next: the service there wants a token: give the same command with --token-env, or with --key-file and a key of svc key add.',
    )
  if (typeof status === 'string')
    err.print(
      `${colours.yellow('warning:')} nothing answers at ${url} now (${status}). Start svc openapi there, or give this command again with the right --url.`,
    )
  else if (status >= 400 && !mcpStatuses.has(status))
    err.print(
      `${colours.yellow('warning:')} ${url} answers with ${status}: it seems not to be MCP of svc. Give this command again with the right --url.`,
    )
}

/** Returns the HTTP status of a GET at this address, or why there is none. */
async function fetchStatus(url: string): Promise<number | string> {
  bypassProxyForLoopback()
  // A service behind a proxy and a long way may take seconds.
  const response = await fetch(url, { signal: AbortSignal.timeout(10_000) }).catch(failureTextOf)
  if (typeof response === 'string') return response
  await response.body?.cancel()
  return response.status
}

/** Options of `svc mcp` that `svc hook-poll` does not have. */
const serveOptions = [
  'confirmSend',
  'anyFile',
  'structured',
  'tools',
  'consumer',
  'keyFile',
  'sandboxPort',
] as const

async function requestOf(
  client: Client,
  flags: SetupFlags,
  config: Config,
  command: Command,
): Promise<SetupRequest> {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(flags.name))
    throw badArgument('--name', 'expected 1 to 64 letters (a-z), digits, "_" or "-"')
  if (flags.hook && config.keyFile !== undefined)
    throw badArgument('--hook', 'expected without --key-file', {
      hint: 'The hook runs as your user, so it would show the agent messages that its key does not contain.',
    })
  if (flags.wake && (config.keyFile !== undefined || flags.url !== undefined))
    throw badArgument('--wake', 'expected without --key-file and --url', {
      hint: 'What wakes the client reads all messages of the data directory, as your user.',
    })
  if (flags.ask && (config.keyFile !== undefined || flags.url !== undefined))
    throw badArgument('--ask', 'expected without --key-file and --url', {
      hint: 'The hook asks from the data directory of this machine, as your user.',
    })
  if ((flags.ask === true) !== (flags.to !== undefined) && !flags.remove)
    throw badArgument('--to', 'expected together with --ask')
  const own = ownProgramOf(command.io).command
  const folders = findUserFolders()
  const { listOfferedTools } = await import('../serve-mcp.ts')
  listOfferedTools(config.tools)
  // The entry names every setting: the client starts svc in another folder and environment.
  const spelled = (without: readonly (keyof Config)[] = []) =>
    writeOptions('setup', command.opts<Flags>(), config, { without, env: command.io.env }).args
  const isHookWanted = flags.hook || (flags.remove && client.name === 'claude-code')
  const isAskWanted = flags.ask || (flags.remove && client.name === 'claude-code')
  const isWakeWanted = flags.wake || (flags.remove && !flags.project && canWake(client, folders))
  const recv = ['recv', '--follow', '--brief', '--consumer', `${client.name}-wake`]
  return {
    client,
    scope: flags.project ? 'project' : 'user',
    name: flags.name,
    server: serverOf(flags, [...own, 'mcp', '-t', 'stdio'], spelled(['consumer']), config.keyFile, command),
    // Each client has its own consumer: clients that share one take messages from each other.
    consumer: { name: config.consumer ?? client.name, isChosen: config.consumer !== undefined },
    ...(isHookWanted && { hook: [...own, 'hook-poll', ...spelled(serveOptions)] }),
    ...(isAskWanted && { ask: [...own, 'hook-ask', ...spelled(serveOptions), '--', flags.to ?? ''] }),
    ...(isWakeWanted && { wake: [...own, ...recv, ...spelled(serveOptions)] }),
    force: flags.force ?? false,
    folders,
  }
}

function serverOf(
  { url, tokenEnv }: SetupFlags,
  start: readonly string[],
  options: readonly string[],
  keyFile: string | undefined,
  command: Command,
): McpTarget {
  if (url === undefined) {
    if (tokenEnv)
      throw badArgument('--token-env', 'expected together with --url', {
        hint: 'Otherwise svc is started by the client itself.',
      })
    return { command: [...start, ...options] }
  }
  const parsed = parseMcpUrl(url)
  rejectBesideUrl(command, ['confirmSend', 'anyFile', 'structured', 'tools'])
  if (keyFile !== undefined) {
    if (tokenEnv)
      throw badArgument('--token-env', 'expected without --key-file', { hint: 'Use only one of them.' })
    // No client reads a token from a file; the bridge does.
    return { command: [...start, '--url', parsed, '--key-file', keyFile] }
  }
  const variable = tokenEnv === true ? defaultTokenVariable : tokenEnv
  if (variable !== undefined && !/^[A-Za-z_][A-Za-z0-9_]*$/.test(variable))
    throw badArgument('--token-env', 'expected the name of an environment variable', {
      hint: 'The token itself does not belong into settings.',
    })
  // A service that other machines can reach requires its token of every caller.
  const isNeeded = !isLoopback(new URL(parsed).hostname)
  const tokenVariable = variable ?? (isNeeded ? defaultTokenVariable : undefined)
  return { url: parsed, bridge: [...start, '--url', parsed], tokenVariable }
}

function printEntries(entries: readonly { path: string; snippet: string }[], print: Output['print']): void {
  for (const { path, snippet } of entries) print(`${path}:\n${snippet}\n`)
}

function describeResult(
  { did, path, what, isGone }: SetupResult,
  { name }: SetupRequest,
  isThere: string,
): string {
  const thing = {
    server: `the server "${name}"`,
    hook: 'the prompt hook',
    ask: 'the permission hook',
    wake: 'what wakes it',
  }[what]
  const end = {
    added: `in ${path}`,
    changed: `in ${path}`,
    removed: `from ${path}${isGone ? ', which held nothing else and is removed too' : ''}`,
  }
  return did === 'nothing'
    ? `nothing to do: ${thing} is ${isThere} in ${path}`
    : `${did} ${thing} ${end[did]}`
}
