/** The tools as commands, each derived from its one definition. */
import { type Tool, tools } from '../../tools/index.ts'
import { addConfigOptions, addEpilogue, type CommandLine, subcommand } from '../command.ts'
import { addToolFlags, exampleLines } from '../tool-flags.ts'

/** `svc recv`, `svc send`, … `svc sessions rename`. */
export function add(line: CommandLine, word?: string): void {
  for (const tool of tools) if (word === undefined || tool.cli.path[0] === word) addTool(line, tool)
}

function addTool(line: CommandLine, tool: Tool): void {
  const summary = tool.title.charAt(0).toLowerCase() + tool.title.slice(1)
  // The command's own options stand after its last word: those of its parent do not catch them.
  const command = subcommand(line.program, tool.cli.path, summary).description(
    (tool.cli.about ?? tool.description).replaceAll('`', ''),
  )
  const flags = addToolFlags(command, tool)
  const run = { line, command, tool, flags }
  if (tool.name === 'recv')
    command.option('-f, --follow', 'Go on printing messages as they come, until Ctrl-C or --limit.')
  if (tool.cli.question)
    command.option(
      '-y, --yes',
      'Do it without asking; where there is no terminal to ask on: without a name too.',
    )
  command.option('--json', jsonHelp[tool.name] ?? 'Print the result as one JSON value.')
  addEpilogue(addConfigOptions(command, 'tool'), exampleLines(tool))
  command.action(async () => {
    if (tool.name === 'login') await (await import('../login.ts')).runLogin(run)
    else if (command.opts().follow) await (await import('../run-tool.ts')).followMessages(run)
    else await (await import('../run-tool.ts')).runTool(run)
  })
}

const jsonHelp: Readonly<Record<string, string>> = {
  recv: 'Print the result as one JSON value; with --follow one message per line.',
  login: 'Print each change of the status as one line of JSON; the first has the QR code.',
}
