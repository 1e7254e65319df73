/** All commands, each with a valid command line. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CommandSpec } from '../../src/cli/command.ts'
import { loadNeededCommands } from '../../src/cli/commands.ts'
import type { CommandShape, Operation } from '../../src/operations/operation.ts'
import { operations } from '../../src/operations/operations.ts'

/** All commands except `complete`, which the shell runs at each Tab. */
export const specs: readonly CommandSpec[] = (await loadNeededCommands([])).filter(
  ({ words }) => words !== 'complete',
)

/** An operation with a command. */
export type Commanded = Operation & { readonly cli: CommandShape }

export const commanded = operations.filter((operation): operation is Commanded => operation.cli !== undefined)

/** Returns the operation of a command. */
export const operationOf = ({ words }: CommandSpec): Commanded | undefined =>
  commanded.find(({ cli }) => cli.path.join(' ') === words)

/** Returns the name of a key on the command line. */
export const nameOf = ({ cli }: Commanded, key: string): string =>
  cli.names?.[key] ?? key.replaceAll('_', '-')

/** Arguments of commands whose definition does not give them, or that would take long with the defaults. */
const besides: Readonly<Record<string, readonly string[]>> = {
  ask: ['a@b', 'Deploy?', '--choices', 'yes,no'],
  recv: ['--timeout', '0'],
  login: ['--timeout', '1'],
  typing: ['a@b'],
  'webhook add': ['http://127.0.0.1:9/', '--allow-private'],
  'webhook replay': ['wh_1', '--from', '1h'],
  'topic add': ['home', '--to', 'a@b'],
  'key add': ['bot', '--can', 'read', '--sessions', 'nope'],
  doctor: ['--timeout', '1'],
  setup: ['cursor'],
  completion: ['bash'],
  'hook-ask': ['a@b'],
  backup: [join(tmpdir(), 'svc-test-backup.tar'), '--force'],
}

/** Returns the positional arguments of a command, with the values of the operation's first example. */
function placed(operation: Commanded): readonly string[] {
  const { cli, examples, inputSchema } = operation
  const example = Object(examples[0]?.input) as Readonly<Record<string, unknown>>
  const isNeeded = (key: string) => inputSchema.required?.includes(key) || key in example
  return (cli.positionals ?? []).filter(isNeeded).map(key => String(example[key] ?? '1'))
}

/** Returns the words of a command with the arguments that it needs. */
export function lineOf(spec: CommandSpec): string[] {
  const operation = operationOf(spec)
  const words = [...spec.words.split(' '), ...(spec.alias ? [spec.alias] : [])]
  return [...words, ...(besides[spec.words] ?? (operation ? placed(operation) : []))]
}
