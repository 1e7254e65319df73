/** The commands that are no tool's, each a row of a table. */
import {
  addConfigOptions,
  addEpilogue,
  type CommandLine,
  type CommandSpec,
  quiet,
  subcommand,
} from '../command.ts'
import { conversation } from './conversation.ts'
import { running } from './running.ts'
import { surroundings } from './surroundings.ts'
import { webhooks } from './webhooks.ts'

const specs = [...conversation, ...webhooks, ...running, ...surroundings]

/** Adds the commands that begin with `word`, or all of them. */
export function add(line: CommandLine, word?: string): void {
  for (const spec of specs)
    if (word === undefined || spec.words.split(' ')[0] === word) addCommand(line, spec)
  if (word !== undefined && word !== 'complete') return
  quiet(line.program.command('complete', { hidden: true }))
    .argument('[words...]')
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (words: string[]) =>
      (await import('../completion.ts')).printCompletions(words, line.needed),
    )
}

function addCommand(line: CommandLine, spec: CommandSpec): void {
  const { words, summary, about = summary, config, own, takes, json, examples, after, run } = spec
  const command = subcommand(line.program, words.split(' '), summary).description(about).helpCommand(false)
  takes?.(command)
  if (json) command.option('--json', json)
  if (config) addConfigOptions(command, config, own)
  addEpilogue(command, examples)
  if (after) command.addHelpText('after', after)
  command.action(async () => {
    const status = await run(command, line)
    if (typeof status === 'number') line.status = status
  })
}
