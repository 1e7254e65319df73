/** Declares `svc agent`, which puts an agent program in front of WeChat, and `svc echo-agent`, to try that. */
import { badArgument } from '../../model/error.ts'
import { type Command, type CommandSpec, findSimilar } from '../command.ts'
import { commands as turnCommands } from './agent-turns.ts'

const gather = (value: string, before: string[] | undefined) => [...(before ?? []), value]

/** Adds the options of one agent. Their names, with `_` in place of `-`, are those of the settings file. */
const addAgentOptions = (command: Command) =>
  command
    .argument('[command...]', 'the agent: a program that reads a prompt from stdin and prints the answer')
    .passThroughOptions()
    .usage('[options] -- COMMAND [ARGUMENTS]')
    .option('--acp', 'the command is an agent of the Agent Client Protocol, such as gemini --acp')
    .option('--ask', 'with --acp: let it ask before it acts, in a mode of its own for that (on)')
    .option('--no-ask', 'with --acp: leave its mode as it is, in which it may ask nothing')
    .option('--mode <name>', 'with --acp: another mode of the agent; the start names them')
    .option('--openai <url>', 'in place of a command: an address with the API of OpenAI, such as Ollama')
    .option('--model <name>', 'with --openai: the model')
    .option('--openai-key-file <file>', 'with --openai: file that holds the key of the address')
    .option('--name <agent>', 'name of the agent, if several run on the data directory (agent)')
    .option('--session <name>', 'only messages of this session (all)')
    .option(
      '--allow <who>',
      'let this person talk with it too, by id or name, or everyone; repeatable (only the owner: who scanned the QR code)',
      gather,
    )
    .option(
      '--approve <whose>',
      'a person approves the answers to "others", or to "all", before they are sent',
    )
    .option('--operator <person>', 'who approves, and decides what it may do, by id or name (the owner)')
    .option(
      '--folder <folder>',
      'folder in which it works, or NAME=FOLDER, repeatable: /cd NAME goes there (an empty one for each user)',
      gather,
    )
    .option('--isolate', 'run it in a sandbox that does not see the data directory (Linux with bubblewrap)')
    .option(
      '--env <name>',
      'variable that it gets also in a sandbox; repeatable (only those of its model)',
      gather,
    )
    .option('--interrupt', 'a new message stops the current answer (it waits)')
    .option('--no-commands', 'hand /stop, /new, /help and the like to the agent, like any text')
    .option(
      '--long <how>',
      'an answer of more than three messages: its first lines and a "file" if that is fewer, or "split" (a file above 12,000 characters)',
    )
    .option('--gather <seconds>', 'messages within this time are one prompt (1.5)')
    .option('--skip-older <time>', 'leave out messages older than this, such as 10m, and say so once (none)')
    .option('--beside', 'has no effect any more: one of the agents of an account answers')
    .option('--turns-per-day <count>', 'most prompts within 24 hours (no limit)')
    .option('--minutes-per-turn <minutes>', 'longest time for one answer (10)')
    .option(
      '--resume-turns',
      'after a crash run the prompt again; the agent may then do things twice (the user is told)',
    )
    .option('--transcribe <command>', 'command that prints what is said in the WAV file after it')
    .option('--zone <name>', 'time zone of the times that people set, such as Asia/Shanghai (this machine)')
    .option('--config <file>', 'in place of all these: a JSON file with several agents')

export const commands: readonly CommandSpec[] = [
  {
    words: 'agent',
    summary: 'let people talk with your agent program on WeChat',
    about:
      'Puts an agent program in front of WeChat, until Ctrl-C: each message becomes a prompt, and what the program answers is sent back. Only the owner of the account, who scanned its QR code, may talk with it, unless --allow names others. It logs in first if there is no account. It works alone and beside a running service. The agent runs as your user: read src/agent/README.md first.',
    config: 'agents',
    isServer: true,
    addOptions: addAgentOptions,
    examples: [
      ['svc agent -- claude -p', 'Claude Code; Codex is: -- codex exec'],
      ['svc agent --acp -- gemini --acp', 'an agent of the Agent Client Protocol'],
      ['svc agent --openai http://127.0.0.1:11434/v1 --model qwen3', 'a model of Ollama'],
      ['svc agent --sandbox -- svc echo-agent', 'try it: a scripted agent, and a simulated WeChat'],
    ],
    async run(command) {
      rejectBareCommand(command)
      await (await import('../agents.ts')).runAgents(command)
    },
  },
  ...turnCommands,
  {
    words: 'echo-agent',
    summary: 'a scripted agent, to try svc agent',
    hidden: true,
    noSandboxHint: 'ever',
    addOptions: command =>
      command
        .argument('[text]', 'the prompt; without it, stdin is the prompt')
        .option('--acp', 'speak the Agent Client Protocol on stdin and stdout'),
    examples: [['svc echo-agent Hello', 'says: You said: Hello; the word help tells what else it does']],
    async run(command) {
      return (await import('../echo-agent.ts')).runEchoAgent(command)
    },
  },
]

/**
 * Rejects a command without `--` before it: its options would be mixed up with those of svc.
 *
 * @throws SvcError `invalid_arguments`
 */
function rejectBareCommand(command: Command): void {
  let root: Command['parent'] = command
  while (root?.parent) root = root.parent
  const { rawArgs = [] } = root as { rawArgs?: string[] }
  const at = rawArgs.indexOf('--')
  const isMarked = at >= 0 && rawArgs.length - at - 1 === command.args.length
  const [word] = command.args
  if (word === undefined || isMarked) return
  const below = findSimilar(
    word,
    command.commands.map(one => one.name()),
  )
  const guess = below.length > 0 ? ` (Did you mean svc agent ${below[0]}?)` : ''
  throw badArgument('<command>', `expected "--" before the agent's command${guess}`, {
    hint: `Write it as: svc agent -- ${command.args.filter(one => one !== '--').join(' ')}`,
  })
}
