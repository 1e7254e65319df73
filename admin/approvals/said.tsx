/** The end of a conversation, quoted, and the content of a send below it. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type Message, mediaUrl, type OutboxEntry, waitingFileUrl } from '../api.ts'
import { holdBlob } from '../conversations/blobs.ts'
import { Delivery } from '../conversations/delivery.tsx'
import { fileName, itemWords, preview } from '../conversations/message-summary.ts'
import { t } from '../i18n.ts'
import { clock, day, now, sameDay } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Time } from '../ui/marks.tsx'
import { textOf } from './drafts.ts'

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

function Picture({ row, index, url, alt }: { row: number; index: number; url: string; alt: string }) {
  const src = useSignal<string | undefined>(undefined)
  useEffect(() => {
    const { promise, release } = holdBlob(row, index, url)
    promise.then(blob => {
      src.value = blob.url
    }, ignore)
    return release
  }, [url])
  return <img src={src.value} alt={alt} />
}

/** The text beside a picture says what it is. */
const ignore = () => {}

function Items({ message }: { message: Message }) {
  let media = 0
  if (message.items.length === 0) return <p class="foreign">{preview(message)}</p>
  return message.items.map((item, nth) => {
    if (item.kind === 'TEXT')
      return (
        <p key={nth} class="foreign" dir="auto">
          {item.text}
        </p>
      )
    const index = item.has_media ? media++ : media
    if (item.kind === 'IMAGE' && item.has_media)
      return (
        <Picture
          key={nth}
          row={message.id}
          index={index}
          url={mediaUrl(message, index)}
          alt={itemWords(item)}
        />
      )
    return (
      <p key={nth} class="foreign">
        {itemWords(item)}
        {item.transcript ? `: ${item.transcript}` : ''}
      </p>
    )
  })
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
      ({ id, kind, file_name, source }) =>
        kind !== 'text' && (
          <p key={id} class="asked-file">
            {kind === 'image' && <Picture row={id} index={0} url={waitingFileUrl(id)} alt="" />}
            <Icon name={kind === 'image' ? 'image' : 'file'} size={16} />
            <a class="link" href={waitingFileUrl(id)} download>
              <bdi>{fileName(file_name ?? '')}</bdi>
            </a>
            <bdi class="soft small">{source}</bdi>
          </p>
        ),
    )}
  </>
)
