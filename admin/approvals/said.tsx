/** The end of a conversation, quoted, and the content of a send below it. */
import type { Message, OutboxEntry } from '../api.ts'
import { Delivery } from '../conversations/delivery.tsx'
import { preview } from '../conversations/message-summary.ts'
import { type MediaProps, mediaOf } from '../conversations/use-blob.ts'
import { t } from '../i18n.ts'
import { clock, day, now, sameDay } from '../times.ts'
import { laterPart } from '../ui/lazy-page.tsx'
import { Time } from '../ui/marks.tsx'
import { textOf } from './drafts.ts'

const Media = laterPart(async () => (await import('../conversations/chat.tsx')).Media)

export const Said = ({
  messages,
  answers = [],
}: {
  messages: readonly Message[]
  answers?: readonly number[] | undefined
}) => (
  <ol class="said">
    {messages.map(message => (
      <li
        key={message.id}
        class={`${message.direction === 'sent' ? 'out' : 'in'}${answers.includes(message.id) ? ' answered' : ''}`}
      >
        <span class="visually-hidden">{t(message.direction === 'sent' ? 'chat.you' : 'chat.they')} </span>
        <Items message={message} />
        <Time at={message.timestamp} class="small soft">
          {!sameDay(message.timestamp, now.value) && `${day(message.timestamp)} `}
          {clock(message.timestamp)} {message.status && <Delivery status={message.status} />}
        </Time>
      </li>
    ))}
  </ol>
)

function Items({ message }: { message: Message }) {
  if (message.items.length === 0) return <p class="foreign">{preview(message)}</p>
  return mediaOf(message).map((one, nth) =>
    one.item.kind === 'TEXT' ? (
      <p key={nth} class="foreign" dir="auto">
        {one.item.text}
      </p>
    ) : (
      <Media key={nth} {...one} />
    ),
  )
}

/** All that is sent. A person must see all that they approve. */
export const Content = ({
  entry,
  text = textOf(entry),
}: {
  entry: OutboxEntry
  text?: string | undefined
}) => (
  <>
    {text !== '' && (
      <p class="draft-text foreign" dir="auto">
        {text}
      </p>
    )}
    {entry.parts.map(
      part =>
        part.kind !== 'text' && (
          <div key={part.id} class="asked-file">
            <Media {...fileOf(entry, part)} />
            <bdi class="soft small">{part.source}</bdi>
          </div>
        ),
    )}
  </>
)

/** A file that waits at the service, as the message that it is in the history. */
function fileOf(entry: OutboxEntry, { id, kind, file_name, size }: OutboxEntry['parts'][number]): MediaProps {
  const msg_type = kind.toUpperCase() as Message['msg_type']
  const item = { kind: msg_type, has_media: false, file_name, size }
  const message: Message = {
    id,
    message_id: '',
    session: entry.session,
    bot_id: '',
    direction: 'sent',
    status: 'queued',
    from_user: '',
    to_user: entry.to_user,
    msg_type,
    text: '',
    timestamp: entry.created_at,
    items: [item],
  }
  return { message, item, index: 0 }
}
