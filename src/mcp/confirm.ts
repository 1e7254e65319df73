/** `--confirm-send`: a person approves each send of an agent before anything goes out. */
import type { Unanswered } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { invoke } from '../operations/gate.ts'
import { foreseeSend, type SendArguments } from '../operations/send.ts'
import { verbs } from '../operations/tools.ts'
import { escapeControls } from '../platform/escape-controls.ts'
import type { McpCall } from './call.ts'
import type { McpContext } from './context.ts'

/** Characters of the text that the question contains. */
const maxQuestionText = 1000

/**
 * Asks the person behind the client whether the message may be sent.
 *
 * @returns undefined if the person agrees; the reason if there is no answer: the send then waits for an
 *   approval elsewhere
 * @throws SvcError `forbidden` if the person declines; the errors of `send` if the message could not be
 *   sent anyway
 */
export async function confirmSend(
  input: unknown,
  call: McpCall,
  { gateway, log }: Pick<McpContext, 'gateway' | 'log'>,
): Promise<Unanswered | undefined> {
  const outgoing = verbs.send.parse(input)
  // A known idempotency key repeats an earlier send, so there is nothing to approve. Should this call send
  // after all, it waits for an approval.
  if ((await invoke(foreseeSend, await gateway, input, call, log)) === 'known') return 'nobody'
  const form = {
    message: describeSend(outgoing),
    requestedSchema: {
      type: 'object' as const,
      properties: { send: { type: 'boolean' as const, title: 'Send it', default: true } },
      required: ['send'],
    },
  }
  const answer = (await call.elicit?.('send', form, outgoing)) ?? 'nobody'
  if (typeof answer === 'object' && answer.send === true) return undefined
  if (answer === 'nobody' || answer === 'cancelled') return answer
  // Some clients that run without a person decline by themselves, so the text names no person then.
  const what = answer === 'declined' ? 'The question was declined' : 'The person did not agree to this send'
  throw new SvcError('forbidden', `${what}; nothing was sent`, {
    details: { answer: answer === 'declined' ? answer : 'no' },
    hint: 'Do not try again unchanged: ask what should be sent instead.',
  })
}

/**
 * Formats everything that would be sent, and where it comes from. Control characters are escaped and lines
 * are marked, so that the content cannot look like another message.
 */
function describeSend({
  to,
  text,
  session,
  media = [],
  file_name,
  when_closed,
  ...rest
}: SendArguments): string {
  const paths = Object.entries(rest).flatMap(([key, value]) =>
    isPath(key) ? [`${key.slice(0, -5)}: ${escapeControls(String(value))}`] : [],
  )
  const entries = media.map(({ kind, path, url, upload_id, file_name: name }) => {
    const source = path ?? url ?? (upload_id === undefined ? 'given as data' : `upload ${upload_id}`)
    return `${kind}: ${escapeControls(source)}${name === undefined ? '' : `, named ${escapeControls(name)}`}`
  })
  return [
    `Send this to ${escapeControls(to)} on WeChat${session === undefined ? '' : ` from session ${escapeControls(session)}`}?`,
    ...(text
      ? [
          quoteLines(
            text.length > maxQuestionText
              ? `${text.slice(0, maxQuestionText)}… (${text.length} characters)`
              : text,
          ),
        ]
      : []),
    ...paths,
    ...(!text && paths.length + entries.length === 0 ? ['Only that the bot is typing, and no message.'] : []),
    ...(file_name === undefined ? [] : [`named ${escapeControls(file_name)}`]),
    ...entries,
    ...(when_closed === 'queue' ? ['If it cannot go out now, it goes out when they write.'] : []),
  ].join('\n')
}

const isPath = (key: string) => key.endsWith('_path')

/** Marks each line of the text with `> `, and escapes control characters. */
const quoteLines = (text: string) =>
  text
    .split(/\r\n|[\n\v\f\u0085\u2028\u2029]/)
    .map(line => `> ${escapeControls(line)}`)
    .join('\n')
