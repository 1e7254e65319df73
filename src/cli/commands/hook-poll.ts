/**
 * Declares and runs `svc hook-poll`: prints what users wrote since the last prompt, for the prompt hook of
 * an agent.
 *
 * The prompt waits as little as possible: beside a running service the command only reads the store; without
 * one it first asks WeChat, for up to 1.5 s. The consumer's position moves once the text is written.
 */
import { invoke } from '../../operations/gate.ts'
import { verbs } from '../../operations/tools.ts'
import { formatUntrusted } from '../../operations/untrusted.ts'
import type { Command, CommandSpec } from '../command.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'hook-poll',
    summary:
      'print new messages for the prompt hook of an agent, marked as untrusted; prints nothing when there are none',
    config: 'tool',
    noSandboxHint: 'ever',
    addOptions: command =>
      command
        .option('-n, --limit <count>', 'show at most this many; the rest follows next time', '20')
        .option(
          '-c, --consumer <name>',
          'consumer to read for: each has its own position in the message log',
          'hook',
        ),
    examples: [
      ['svc hook-poll', 'the command of a prompt hook; svc setup claude-code --hook adds it to the settings'],
      [
        'svc hook-poll --consumer night-shift --limit 5',
        'a second agent with its own position, five messages at a time',
      ],
    ],
    helpFooter:
      'This command never exits with 2, because a hook that does so blocks the prompt. Each message is shown once; one that may not have arrived is shown again and marked. The first call for a consumer shows nothing: messages after it are shown. Guests are left out.',
    run: hookPoll,
  },
]

/**
 * Most characters of all output. Claude Code takes up to 10,000 characters of a hook's output and cuts off
 * the rest.
 */
const maxTotalCharacters = 5000
/** Most characters of one message. */
const maxMessageCharacters = 2000

/** Runs the command. @throws SvcError */
async function hookPoll(command: Command): Promise<void> {
  const input = inputOf(command.opts())
  const { commandCall } = await import('../open.ts')
  const { openForHook } = await import('../hook.ts')
  const { withoutGuests } = await import('../guests.ts')
  await using opened = await openForHook(command)
  if (!opened) return
  using call = commandCall(command.io, { onward: true })
  let isWritten = false
  try {
    const messages = await invoke(verbs.recv, opened.gateway, input, call, opened.log)
    const sessions =
      messages.length === 0 ? [] : await invoke(verbs.sessions, opened.gateway, {}, call, opened.log)
    const shown = withoutGuests(messages, sessions)
    const text = formatUntrusted(shown, {
      heading: headingOf(shown.length, messages.length === input.limit),
      maxTextLength: maxMessageCharacters,
      maxTotalLength: maxTotalCharacters,
    })
    if (text !== '') await command.io.out.write(`${text}\n`)
    isWritten = true
  } finally {
    call.done(isWritten)
  }
}

/** Converts the options to the input of recv. @throws SvcError `invalid_arguments` */
function inputOf({ limit = '', consumer }: { limit?: string; consumer?: string }) {
  return verbs.recv.parse({ consumer, limit: /^\d+$/.test(limit) ? Number(limit) : limit, timeout: 0 })
}

function headingOf(count: number, mayBeMore: boolean): string {
  const more = mayBeMore ? ' More may wait: they are shown with the next prompt.' : ''
  return `${count} new WeChat message${count === 1 ? '' : 's'}, by svc.${more}`
}
