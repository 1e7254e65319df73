/** Every command, and a command line of each that is not wrong. */
import type { CommandSpec } from '../../src/cli/command.ts'
import { needed } from '../../src/cli/commands.ts'
import type { CommandShape, Operation } from '../../src/operations/operation.ts'
import { operations } from '../../src/operations/operations.ts'

/** All but the one that the shell asks at each Tab. */
export const specs: readonly CommandSpec[] = (await needed([])).filter(({ words }) => words !== 'complete')

/** An operation that has a command. */
export type Commanded = Operation & { readonly cli: CommandShape }

export const commanded = operations.filter((one): one is Commanded => one.cli !== undefined)

/** The operation of a command. */
export const operationOf = ({ words }: CommandSpec): Commanded | undefined =>
  commanded.find(({ cli }) => cli.path.join(' ') === words)

/** What a key is called on the command line. */
export const nameOf = ({ cli }: Commanded, key: string): string =>
  cli.names?.[key] ?? key.replaceAll('_', '-')

/** What a command needs besides its words, where its definition does not say it, or the usual would take long. */
const besides: Readonly<Record<string, readonly string[]>> = {
  recv: ['--timeout', '0'],
  login: ['--timeout', '1'],
  typing: ['a@b'],
  'webhook add': ['http://127.0.0.1:9/', '--allow-private'],
  'webhook replay': ['wh_1', '--from', '1h'],
  doctor: ['--timeout', '1'],
  setup: ['cursor'],
  completion: ['bash'],
}

/** What stands behind the words of a command, for the keys that may be given without a flag: as the first example has them. */
function placed(operation: Commanded): readonly string[] {
  const { cli, examples, inputSchema } = operation
  const example = Object(examples[0]?.input) as Readonly<Record<string, unknown>>
  const isNeeded = (key: string) => inputSchema.required?.includes(key) || key in example
  return cli.positionals.filter(isNeeded).map(key => String(example[key] ?? '1'))
}

/** The words of a command, and what it needs behind them. */
export function lineOf(spec: CommandSpec): string[] {
  const operation = operationOf(spec)
  const words = [...spec.words.split(' '), ...(spec.also ? [spec.also] : [])]
  return [...words, ...(besides[spec.words] ?? (operation ? placed(operation) : []))]
}
