/** Declares and runs `svc typing`: repeats the typing indicator, since WeChat hides it after some seconds. */
import { type Call, createDirectCall } from '../../model/call.ts'
import { badArgument } from '../../model/error.ts'
import { invoke } from '../../operations/gate.ts'
import { showTyping } from '../../operations/typing.ts'
import { toJsonLine } from '../../platform/escape-controls.ts'
import { type CommandSpec, toolConfig } from '../command.ts'
import { colours, oneLine } from '../terminal.ts'

/** Time after which the indicator is shown again. */
const repeatMs = 4500
/** Longest wait for WeChat to hide the indicator at the end. */
const hideTimeoutMs = 1500

export const commands: readonly CommandSpec[] = [
  {
    words: 'typing',
    summary: 'show a user that the bot is typing',
    about:
      'Shows a user that the bot is typing, for the given time or until Ctrl-C. Nothing is sent, and no answer is used. svc send --typing shows it from the start of a send.',
    config: 'tool',
    addOptions: command =>
      command
        .argument('<user>', 'Id or name of a user who has written.')
        .option('--seconds <seconds>', 'How long.', '5')
        .option('-s, --session <session>', 'Session to use; without it the one that the user last wrote to.'),
    jsonHelp: 'Print the result as one JSON value.',
    examples: [['svc typing Mum --seconds 20', 'While another program prepares the answer']],
    async run(command) {
      const [to = ''] = command.args
      const { seconds, session, json } = command.opts<{ seconds: string; session?: string; json?: boolean }>()
      const durationS = /^\d{1,3}$/.test(seconds) ? Number(seconds) : 0
      if (durationS < 1 || durationS > 300) throw badArgument('--seconds', 'expected 1 to 300 seconds')
      const config = toolConfig(command)
      const { clock } = command.io
      const { commandCall, openForCommand } = await import('../open.ts')
      using call = commandCall(command.io)
      await using opened = await openForCommand(config, command.io)
      const { gateway, log } = opened
      const setTyping = (typing: boolean, by: Call) =>
        invoke(showTyping, gateway, { to, session, typing }, by, log)
      const until = clock.monotonic() + durationS * 1000
      try {
        for (let nth = 0; !call.signal.aborted && clock.monotonic() < until; nth++) {
          const result = await setTyping(true, call)
          const text = `${colours.green('typing')}  ${oneLine(result.session)} → ${oneLine(to)}, for ${durationS} s`
          if (nth === 0) await command.io.out.write(`${json ? toJsonLine(result) : text}\n`)
          const leftMs = until - clock.monotonic()
          await clock.sleep(Math.max(0, Math.min(repeatMs, leftMs)), call.signal)
        }
      } catch (error) {
        if (!call.signal.aborted) throw error
      }
      // Ctrl-C may have aborted the call, so this is another one. If it fails, WeChat hides the indicator by
      // itself.
      const end = new AbortController()
      const last = createDirectCall({ signal: end.signal })
      const hidden = setTyping(false, last).catch(() => undefined)
      await Promise.race([hidden, clock.sleep(hideTimeoutMs, end.signal)])
      end.abort()
    },
  },
]
