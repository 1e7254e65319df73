/**
 * The commands by their first word, in the order of the help. The file that declares a command is loaded on
 * use.
 */
import type { CommandSpec } from './command.ts'

type Load = () => Promise<{ readonly commands: readonly CommandSpec[] }>

const messages: Load = () => import('./commands/messages.ts')
const sessions: Load = () => import('./commands/sessions.ts')
const outbox: Load = () => import('./commands/outbox.ts')
const serve: Load = () => import('./commands/serve.ts')
const backup: Load = () => import('./commands/backup.ts')
const people: Load = () => import('./commands/people.ts')
const agent: Load = () => import('./commands/agent.ts')
const topic: Load = () => import('./commands/topic.ts')
const completion: Load = () => import('./commands/completion.ts')

/** Loaders by heading in the help of svc, then by first word. */
export const commandGroups: Readonly<Record<string, Readonly<Record<string, Load>>>> = {
  'Talk:': {
    recv: messages,
    send: messages,
    ask: () => import('./commands/ask.ts'),
    download: messages,
    history: messages,
    users: () => import('./commands/users.ts'),
    typing: () => import('./commands/typing.ts'),
    events: () => import('./commands/events.ts'),
    outbox,
    approvals: outbox,
  },
  'Accounts:': {
    sessions,
    login: sessions,
    logout: sessions,
    check: sessions,
    invite: () => import('./commands/invite.ts'),
  },
  'Events:': { webhook: () => import('./commands/webhook.ts'), topic, notify: topic },
  'Serve:': { openapi: serve, mcp: serve, admin: serve, sandbox: serve },
  'Operate:': {
    status: () => import('./commands/status.ts'),
    key: () => import('./commands/key.ts'),
    relay: () => import('./commands/relay.ts'),
    token: () => import('./commands/token.ts'),
    panel: () => import('./commands/panel.ts'),
    secrets: () => import('./commands/secrets.ts'),
    audit: () => import('./commands/audit.ts'),
    export: () => import('./commands/export.ts'),
    nodes: () => import('./commands/nodes.ts'),
    consumers: () => import('./commands/consumers.ts'),
    backups: () => import('./commands/backups.ts'),
    forget: people,
    health: () => import('./commands/health.ts'),
    doctor: () => import('./commands/doctor.ts'),
    service: () => import('./commands/service.ts'),
    backup,
    restore: backup,
    store: () => import('./commands/store.ts'),
    migrate: () => import('./commands/migrate.ts'),
    completion,
    licenses: () => import('./commands/licenses.ts'),
  },
  'Agents:': {
    agent,
    setup: () => import('./commands/setup.ts'),
    'hook-poll': () => import('./commands/hook-poll.ts'),
    'hook-ask': () => import('./commands/hook-ask.ts'),
  },
}

/** Loaders by first word. The completion scripts call `complete` at each Tab, and services call `scrub`. */
const loaders: ReadonlyMap<string | undefined, Load> = new Map([
  ...Object.values(commandGroups).flatMap(words => Object.entries(words)),
  ['echo-agent', agent],
  ['complete', completion],
  ['scrub', people],
])

/** Returns true if this is the first word of a command. */
export const isCommand = (word: string | undefined): word is string => loaders.has(word)

const servers = ['openapi', 'mcp', 'admin', 'agent']
const quickFlags = ['-h', '--help', '-v', '--version']

/**
 * Guesses from the words alone whether a command line will keep polling. `svc` without a command counts as
 * polling.
 */
export function isServing(args: readonly string[]): boolean {
  const [first = '-'] = args
  if (args.some(word => quickFlags.includes(word))) return false
  if (first === 'recv') return args.includes('--follow') || args.includes('-f')
  if (!first.startsWith('-')) return servers.includes(first)
  // Options may stand before the command.
  return args.some(word => servers.includes(word)) || !args.some(isCommand)
}

/**
 * Loads the commands that a command line needs: none for the version, those with its first word, or all
 * commands for the help and for an unknown word.
 */
export async function loadNeededCommands([word]: readonly string[]): Promise<CommandSpec[]> {
  if (word === '-v' || word === '--version') return []
  const named = loaders.get(word)
  const modules = await Promise.all([...new Set(named ? [named] : loaders.values())].map(load => load()))
  const specs = modules.flatMap(({ commands }) => commands)
  return named ? specs.filter(({ words }) => words.split(' ')[0] === word) : specs
}
