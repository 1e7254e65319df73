/** What the commands share: how one is declared, its options from the table in config, and its exit status. */

import { type Command, Option } from 'commander'
import { type CommandName, type Config, type Flags, optionTable, readConfig } from '../config.ts'

/** A command line under way. */
export interface CommandLine {
  /** What the commands are added to. */
  readonly program: Command
  /** Exit status of a run that throws nothing: 0 done, 1 failed. */
  status: number
}

/** A module of `commands/`: declares commands; their work is loaded when they run. */
export interface CommandModule {
  add(line: CommandLine): void
}

/** A new command under `parent`; with a summary that also is its description. */
export function subcommand(parent: Command, name: string, summary: string): Command {
  return quiet(parent.command(name).summary(summary).description(summary))
}

/** Wrong usage is thrown, not printed: one place says it, in one form. */
export const quiet = (command: Command): Command =>
  command.exitOverride().configureOutput({ outputError: () => {} })

/** Adds the options of `name` from the table in config. */
export function addConfigOptions(command: Command, name: CommandName): Command {
  for (const spec of optionTable) {
    if (!spec.flag || !spec.commands.includes(name)) continue
    const flags = `${spec.short ? `${spec.short}, ` : ''}${spec.flag}${spec.placeholder ? ` ${spec.placeholder}` : ''}`
    const shown =
      spec.shownDefault ??
      (typeof spec.default === 'string' && spec.default !== '' ? spec.default : undefined)
    const option = new Option(flags, `${spec.help}${shown ? ` (${shown})` : ''} [${spec.env}]`)
    if (spec.repeatable)
      option.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
    command.addOption(option)
  }
  return command
}

/**
 * The Config of a command's options, its environment and the defaults.
 *
 * @param preset what this command decides itself
 * @throws SvcError `invalid_arguments` naming the option
 */
export const configFrom = (command: Command, preset: Flags = {}): Config =>
  readConfig({ ...(command.opts() as Flags), ...preset })
