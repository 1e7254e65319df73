/** `--confirm-send`: a person says yes before anything goes out. */
import { SvcError } from '../model/error.ts'
import type { Tool } from '../tools/index.ts'
import type { McpCall } from './call.ts'

const shownText = 1000

/** What is shown of a send before it goes out. */
interface Outgoing {
  to: string
  text?: string
  session?: string
  media?: readonly { kind: string; path?: string; url?: string; file_name?: string }[]
  [other: string]: unknown
}

/**
 * Asks the person behind the client whether this may be sent.
 *
 * @throws SvcError `forbidden` unless the answer is yes, `invalid_arguments` for what could not be sent anyway
 */
export async function confirmSend(tool: Tool, input: unknown, call: McpCall): Promise<void> {
  const outgoing = tool.parse(input ?? {}) as Outgoing
  if (!call.elicit) {
    throw new SvcError(
      'forbidden',
      'Each send has to be confirmed by a person, and this client cannot ask one',
      {
        hint: 'Use a client that supports elicitation, or start svc without --confirm-send.',
      },
    )
  }
  const answer = await call.elicit('send', {
    message: described(outgoing),
    requestedSchema: {
      type: 'object',
      properties: { send: { type: 'boolean', title: 'Send it', default: true } },
      required: ['send'],
    },
  })
  if (answer?.send === true) return
  throw new SvcError('forbidden', 'The person did not agree to this send; nothing was sent', {
    hint: 'Do not try again unchanged: ask what should be sent instead.',
  })
}

function described({ to, text, session, media = [], ...rest }: Outgoing): string {
  const paths = Object.entries(rest).flatMap(([key, value]) =>
    key.endsWith('_path') ? [`${key.slice(0, -5)}: ${String(value)}`] : [],
  )
  const entries = media.map(
    one => `${one.kind}: ${one.file_name ?? one.path ?? one.url ?? 'given as data or upload'}`,
  )
  return [
    `Send this to ${to} on WeChat${session === undefined ? '' : ` from session ${session}`}?`,
    ...(text
      ? [text.length > shownText ? `${text.slice(0, shownText)}… (${text.length} characters)` : text]
      : []),
    ...paths,
    ...entries,
  ].join('\n')
}
