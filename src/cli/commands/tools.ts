/** The tools as commands, each derived from its one definition. */
import { tools } from '../../operations/tools.ts'
import type { CommandSpec } from '../command.ts'
import { exampleLines, toolFlags } from '../tool-flags.ts'

const jsonHelp: Readonly<Record<string, string>> = {
  recv: 'Print the result as one JSON value; with --follow one message per line.',
  login: 'Print each change of the status as one line of JSON; the first has the QR code.',
}

/** `svc recv`, `svc send`, … `svc sessions rename`. */
export const commands: readonly CommandSpec[] = tools.map(tool => {
  const { about = tool.description, path, question } = tool.cli
  const flags = toolFlags(tool)
  return {
    words: path.join(' '),
    summary: tool.title.charAt(0).toLowerCase() + tool.title.slice(1),
    about: about.replaceAll('`', ''),
    config: 'tool',
    lasts: command => tool.name === 'login' || command.opts().follow === true,
    takes(command) {
      flags.declare(command)
      if (tool.name === 'recv')
        command.option('-f, --follow', 'Keep printing messages as they arrive, until Ctrl-C or --limit.')
      if (question)
        command.option(
          '-y, --yes',
          'Do not ask first; without a terminal it also allows leaving out the name.',
        )
    },
    json: jsonHelp[tool.name] ?? 'Print the result as one JSON value.',
    examples: exampleLines(tool),
    told: flags.told,
    async run(command, line) {
      const run = { line, command, tool, flags }
      if (tool.name === 'login') await (await import('../login.ts')).runLogin(run)
      else if (command.opts().follow) await (await import('../run-tool.ts')).followMessages(run)
      else await (await import('../run-tool.ts')).runTool(run)
    },
  }
})
