/** The commands by their first word, in the order of the help. What declares them is loaded when a word is given. */
import type { CommandModule } from './command.ts'

type Load = () => Promise<{ add(line: Parameters<CommandModule['add']>[0], word?: string): void }>

const tools: Load = () => import('./commands/tools.ts')
const others: Load = () => import('./commands/others.ts')
const toolWords = ['recv', 'send', 'download', 'history', 'sessions', 'login', 'logout']

/** Where the help of svc shows a command. */
export const helpGroups: Readonly<Record<string, readonly string[]>> = {
  'Talk:': ['recv', 'send', 'download', 'history', 'users', 'typing', 'outbox', 'approvals', 'events'],
  'Accounts:': ['sessions', 'login', 'logout', 'check'],
  'Events:': ['webhook'],
  'Serve:': ['openapi', 'mcp', 'admin', 'sandbox'],
  'Look after it:': ['status', 'token', 'health', 'doctor', 'service', 'migrate', 'completion'],
  'Agents:': ['setup', 'hook-poll'],
}

/** Every first word; the shell asks `complete` at each Tab. */
export const commandWords: readonly string[] = [...Object.values(helpGroups).flat(), 'complete']

/** Whether it is the first word of a command. */
export const isCommand = (word: string | undefined): word is string =>
  word !== undefined && commandWords.includes(word)

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

/** The modules that a command line needs: none for the version, the one it names, or all, for the help and for typing errors. */
export async function needed([word]: readonly string[]): Promise<CommandModule[]> {
  if (word === '-v' || word === '--version') return []
  if (!isCommand(word)) return Promise.all([tools(), others()])
  const { add } = await (toolWords.includes(word) ? tools : others)()
  return [{ add: line => add(line, word) }]
}
