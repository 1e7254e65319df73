/** `--confirm-send`: a person says yes before anything goes out. */
import type { Unanswered } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { invoke } from '../operations/gate.ts'
import { foreseeSend, type Outgoing } from '../operations/send.ts'
import { verbs } from '../operations/tools.ts'
import { seen } from '../platform/escape-controls.ts'
import type { McpCall } from './call.ts'
import type { McpContext } from './context.ts'

const shownText = 1000

/**
 * Asks the person behind the client whether this may be sent.
 *
 * @returns undefined for a yes; why there is no answer: then it has to wait for a yes that is said elsewhere
 * @throws SvcError `forbidden` for a no; what `send` would, for what could not be sent anyway
 */
export async function confirmSend(
  input: unknown,
  call: McpCall,
  { gateway, log }: Pick<McpContext, 'gateway' | 'log'>,
): Promise<Unanswered | undefined> {
  const outgoing = verbs.send.parse(input ?? {})
  // A yes would be one to what was sent before. No answer is no yes: should it send after all, it waits.
  if ((await invoke(foreseeSend, gateway, input ?? {}, call, log)) === 'known') return 'nobody'
  const form = {
    message: described(outgoing),
    requestedSchema: {
      type: 'object' as const,
      properties: { send: { type: 'boolean' as const, title: 'Send it', default: true } },
      required: ['send'],
    },
  }
  const answer = (await call.elicit?.('send', form, outgoing)) ?? 'nobody'
  if (typeof answer === 'object' && answer.send === true) return undefined
  if (answer === 'nobody' || answer === 'cancelled') return answer
  // Some programs that run without a person decline by themselves: that is no word of one.
  const what = answer === 'declined' ? 'The question was declined' : 'The person did not agree to this send'
  throw new SvcError('forbidden', `${what}; nothing was sent`, {
    details: { answer: answer === 'declined' ? answer : 'no' },
    hint: 'Do not try again unchanged: ask what should be sent instead.',
  })
}

/** All that goes out, and where it comes from: neither a hidden character nor a line end can make it look otherwise. */
function described({ to, text, session, media = [], file_name, when_closed, ...rest }: Outgoing): string {
  const paths = Object.entries(rest).flatMap(([key, value]) =>
    isPath(key) ? [`${key.slice(0, -5)}: ${seen(String(value))}`] : [],
  )
  const entries = media.map(one => {
    const source =
      one.path ?? one.url ?? (one.upload_id === undefined ? 'given as data' : `upload ${one.upload_id}`)
    return `${one.kind}: ${seen(source)}${one.file_name === undefined ? '' : `, named ${seen(one.file_name)}`}`
  })
  return [
    `Send this to ${seen(to)} on WeChat${session === undefined ? '' : ` from session ${seen(session)}`}?`,
    ...(text
      ? [shown(text.length > shownText ? `${text.slice(0, shownText)}… (${text.length} characters)` : text)]
      : []),
    ...paths,
    ...(!text && paths.length + entries.length === 0 ? ['Only that the bot is typing, and no message.'] : []),
    ...(file_name === undefined ? [] : [`named ${seen(file_name)}`]),
    ...entries,
    ...(when_closed === 'queue' ? ['If it cannot go out now, it goes out when they write.'] : []),
  ].join('\n')
}

const isPath = (key: string) => key.endsWith('_path')

/** The text with its lines, each marked as such. */
const shown = (text: string) =>
  text
    .split(/\r\n|[\n\v\f\u0085\u2028\u2029]/)
    .map(line => `> ${seen(line)}`)
    .join('\n')
