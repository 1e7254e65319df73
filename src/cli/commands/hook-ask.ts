/**
 * Declares and runs `svc hook-ask`: asks a person on WeChat what Claude Code asks on its screen, for its permission hook.
 *
 * It decides nothing unless the person answers: without a decision the prompt on the screen stays.
 */
import {
  followTranscript,
  formatDecision,
  formatPermission,
  type HookRequest,
  readHookRequest,
} from '../../agent/permission-hook.ts'
import { mayUse } from '../../model/answers.ts'
import { isSvcError, SvcError } from '../../model/error.ts'
import { invoke } from '../../operations/gate.ts'
import { ask } from '../../operations/questions.ts'
import { listUsers } from '../../operations/users.ts'
import type { Clock } from '../../platform/clock.ts'
import { answerSeconds } from '../../setup/hook.ts'
import type { Command, CommandSpec } from '../command.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'hook-ask',
    summary: 'ask a person on WeChat what Claude Code asks on its screen, for its permission hook',
    config: 'tool',
    noSandboxHint: 'ever',
    addOptions: command => command.argument('<to>', 'the person who is asked: the name, or the user id'),
    examples: [
      ['svc hook-ask Mum', 'the command of a permission hook; svc setup claude-code --ask --to Mum adds it'],
    ],
    helpFooter:
      'Reads the request from stdin. Prints the decision, and nothing if there is none: nobody answered within 10 minutes, or fewer than 4 answers are left.',
    run: hookAsk,
  },
]

const lookEveryMs = 1000

/** Runs the command. @throws SvcError */
async function hookAsk(command: Command): Promise<void> {
  const { io } = command
  const [to = ''] = command.args
  const request = readHookRequest(Buffer.concat(await Array.fromAsync(io.in.stream)).toString())
  if (!request) return
  const { commandCall } = await import('../open.ts')
  const { openForHook } = await import('../hook.ts')
  using call = commandCall(io)
  await using opened = await openForHook(command)
  if (!opened) return
  const { gateway, log } = opened
  // The one who wrote last, if the person uses several accounts.
  const [person] = await invoke(listUsers, gateway, { user_id: to }, call, log)
  if (!person || !mayUse('question', person))
    throw new SvcError(
      'quota_exhausted',
      `${person?.remaining ?? 0} answers are left for ${to}: nothing is asked`,
    )
  const { session, user_id } = person
  const text = formatPermission(request, io.env)
  const input = { to: user_id, session, text, choices: ['yes', 'no'], timeout: answerSeconds, grants: true }
  using _ = endOnceDecided(request, call, gateway.clock)
  try {
    const { choice } = await invoke(ask, gateway, input, call, log)
    await io.out.write(`${formatDecision(choice === 'yes', to)}\n`)
  } catch (error) {
    if (!call.signal.aborted && !isSvcError(error, 'no_answer')) throw error
  }
}

/** Ends the call, which takes the question back, when somebody has allowed it on the screen. */
function endOnceDecided(request: HookRequest, call: { end(): void }, clock: Clock): Disposable {
  const left = new AbortController()
  const { signal } = left
  const follow = async () => {
    const isDecided = await followTranscript(request)
    while (!signal.aborted && !(await isDecided())) await clock.sleep(lookEveryMs, signal)
    if (!signal.aborted) call.end()
  }
  void follow()
  return { [Symbol.dispose]: () => left.abort() }
}
