/** The commands by their first word, in the order of the help. Each is loaded when its word is given. */
import type { CommandModule } from './command.ts'

type Load = () => Promise<CommandModule>

// Modules of several words: one loader each, so that they are added once.
const tools: Load = () => import('./commands/tools.ts')
const completion: Load = () => import('./commands/completion.ts')

/** First word → its module. */
export const commands: Readonly<Record<string, Load>> = {
  recv: tools,
  send: tools,
  download: tools,
  history: tools,
  users: () => import('./commands/users.ts'),
  outbox: () => import('./commands/outbox.ts'),
  sessions: tools,
  login: tools,
  logout: tools,
  check: () => import('./commands/check.ts'),
  openapi: () => import('./commands/openapi.ts'),
  mcp: () => import('./commands/mcp.ts'),
  admin: () => import('./commands/admin.ts'),
  sandbox: () => import('./commands/sandbox.ts'),
  status: () => import('./commands/status.ts'),
  token: () => import('./commands/token.ts'),
  health: () => import('./commands/health.ts'),
  doctor: () => import('./commands/doctor.ts'),
  service: () => import('./commands/service.ts'),
  migrate: () => import('./commands/migrate.ts'),
  setup: () => import('./commands/setup.ts'),
  'hook-poll': () => import('./commands/hook-poll.ts'),
  completion,
  complete: completion,
}

/** Where the help of svc shows a command; those not named here stand at its end. */
export const helpGroups: Readonly<Record<string, readonly string[]>> = {
  'Talk:': ['recv', 'send', 'download', 'history', 'users', 'outbox'],
  'Accounts:': ['sessions', 'login', 'logout', 'check'],
  'Serve:': ['openapi', 'mcp', 'admin', 'sandbox'],
  'Look after it:': ['status', 'token', 'health', 'doctor', 'service', 'migrate', 'completion'],
  'Agents:': ['setup', 'hook-poll'],
}

/** Whether it is the first word of a command. */
export const isCommand = (word: string | undefined): word is string =>
  word !== undefined && Object.hasOwn(commands, word)

const servers = ['openapi', 'mcp', 'admin']
const quickWords = ['-h', '--help', '-v', '--version']

/** Whether a command line goes on polling, as far as its words tell without being read: svc alone does too. */
export function isServing(args: readonly string[]): boolean {
  const [first = '-'] = args
  if (args.some(word => quickWords.includes(word))) return false
  if (first === 'recv') return args.includes('--follow') || args.includes('-f')
  if (!first.startsWith('-')) return servers.includes(first)
  // Options may stand before the command.
  return args.some(word => servers.includes(word)) || !args.some(isCommand)
}

/** The modules that a command line needs: the one it names, or all, for the help and for typing errors. */
export function needed(args: readonly string[]): Promise<CommandModule[]> {
  const named = isCommand(args[0]) ? commands[args[0]] : undefined
  const loads = named ? [named] : [...new Set(Object.values(commands))]
  return Promise.all(loads.map(load => load()))
}
