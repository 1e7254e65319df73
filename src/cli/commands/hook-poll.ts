/**
 * `svc hook-poll`: what users wrote since the last prompt, as text that an agent's hook puts before its model.
 *
 * Nobody waits for it: beside a running service it only reads the store. Alone it asks WeChat first, which takes up to
 * a second and a half. The position moves when the text is on stdout.
 */
import { localFiles } from '../../config/local-files.ts'
import { type Config, type Flags, readConfig } from '../../config.ts'
import { invoke } from '../../operations/gate.ts'
import { verbs } from '../../operations/tools.ts'
import { untrustedText } from '../../operations/untrusted.ts'
import type { Command, CommandSpec } from '../command.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'hook-poll',
    summary:
      'print new messages for the prompt hook of an agent, marked as untrusted; prints nothing when there are none',
    config: 'tool',
    noSandboxHint: 'ever',
    takes: command =>
      command
        .option('-n, --limit <count>', 'show at most this many; the rest follows next time', '20')
        .option(
          '-c, --consumer <name>',
          'consumer to read for: each has its own place in the message log',
          'hook',
        ),
    examples: [
      ['svc hook-poll', 'the command of a prompt hook; svc setup claude-code --hook adds it to the settings'],
      [
        'svc hook-poll --consumer night-shift --limit 5',
        'a second agent with its own place, five messages at a time',
      ],
    ],
    after:
      'This command never exits with 2, because a hook that does so blocks the prompt. Each message is shown once; one that may not have arrived is shown again and marked. The first call for a consumer shows nothing: messages after it are shown.',
    run: hookPoll,
  },
]

/** Claude Code puts up to 10,000 characters of a hook's output before its model, of more only the beginning. */
const mostText = 5000
const longestText = 2000

/** Runs the command. @throws SvcError */
async function hookPoll(command: Command): Promise<void> {
  const config = readConfig(command.opts<Flags>(), command.io.env, { logLevel: 'ERROR' })
  const input = inputOf(command.opts())
  const { commandCall, openForCommand } = await import('../open.ts')
  const { lookAtDirectory } = await import('../../inspect/data-directory.ts')
  // Where nothing ever was, nothing is made either: a hook may run long before anyone logs in.
  if (!(await lookAtDirectory(config.basePath)).isUsed) return
  using call = commandCall(command.io, { onward: true })
  await using opened = await openForCommand(config, command.io, { sandboxOf })
  let isWritten = false
  try {
    const messages = await invoke(verbs.recv, opened.gateway, input, call, opened.log)
    const text = untrustedText(messages, {
      heading: headingOf(messages.length, input.limit),
      maxTextLength: longestText,
      maxTotalLength: mostText,
    })
    if (text !== '') await command.io.out.write(`${text}\n`)
    isWritten = true
  } finally {
    call.done(isWritten)
  }
}

/** As recv takes them. @throws SvcError `invalid_arguments` */
function inputOf({ limit = '', consumer }: { limit?: string; consumer?: string }) {
  return verbs.recv.parse({ consumer, limit: /^\d+$/.test(limit) ? Number(limit) : limit, timeout: 0 })
}

function headingOf(count: number, limit = 20): string {
  const more = count < limit ? '' : ' More may wait: they are shown with the next prompt.'
  return `${count} new WeChat message${count === 1 ? '' : 's'}, by svc.${more}`
}

/** The simulated WeChat of the directory, if it runs: for one prompt none is started. */
async function sandboxOf(config: Config): Promise<{ url: string }> {
  const { joinSandbox } = await import('../../sandbox/sandbox.ts')
  // The port of nobody: what waits in the store is shown all the same.
  return (await joinSandbox(localFiles(config.basePath).sandbox)) ?? { url: 'http://127.0.0.1:9' }
}
