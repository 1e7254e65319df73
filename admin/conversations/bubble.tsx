/** The bubble of a message. */
import { useSignal } from '@preact/signals'
import { memo } from 'preact/compat'
import { call, type Message } from '../api.ts'
import { isolated, number, type TextKey, t } from '../i18n.ts'
import { userOf } from '../live.ts'
import { answering, callerName, may, mayCancel } from '../rights.ts'
import { LoginFirst } from '../sessions/login-first.tsx'
import { accountOf } from '../sessions/names.ts'
import { asksFirst } from '../talks.ts'
import { clock, day, sameDay } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { Time } from '../ui/marks.tsx'
import { useWork } from '../ui/work.ts'
import { Who } from '../users/avatar.tsx'
import { approvals } from './approvals.ts'
import {
  Delivery,
  deliveryNote,
  isCancelled,
  quotedReason,
  type Remedy,
  RemedyButton,
  remedyFor,
} from './delivery.tsx'
import { Picture, Plain, Video } from './media.tsx'
import { type Bars, MessageBar } from './message-bar.tsx'
import { itemWords } from './message-summary.ts'
import { cutAt, Rich } from './text.tsx'
import { type MediaProps, mediaOf } from './use-blob.ts'
import { Voice } from './voice.tsx'

interface BubbleProps {
  message: Message
  /** A time of the day whose heading is above the message, Unix ms. */
  ofDay: number
  /** Whether the message is the first, and the last, of several messages from one side. */
  first: boolean
  last: boolean
  /** Whether the bubble has the buttons to approve or decline. */
  decides: boolean
  needle: string
  /** Whether the URL asks for this message. */
  looked: boolean
  /** Row ids whose long text is shown in full. */
  unfolded: Set<number>
  /** Which message has its bar of actions. */
  bars: Bars
  onQuote(quote: NonNullable<Message['ref_msg']>): void
  /** Whether the content of a refused message is still available. */
  hasAgain: boolean
  /** Sends it again. */
  onAgain(message: Message, queue: boolean): void
}

export const Bubble = memo(function Bubble(props: BubbleProps) {
  const { message, ofDay, first, last, looked, bars, onQuote, hasAgain, onAgain } = props
  const { direction, items, ref_msg, group_id, status } = message
  const sent = direction === 'sent'
  const onlyPicture =
    items.length === 1 && (items[0]!.kind === 'IMAGE' || items[0]!.kind === 'VIDEO') && !ref_msg
  const endsInText = items.at(-1)?.kind === 'TEXT'
  const canAgain =
    status === 'refused' && hasAgain && answering() !== undefined && remedyOf(message) === 'again'
  return (
    <article
      class={`message ${sent ? 'out' : 'in'}${first ? ' first' : ''}${last ? ' last' : ''}${looked ? ' looked' : ''}`}
      data-row={message.id}
    >
      <div class="bubble-line">
        <div class={`bubble${onlyPicture ? ' bare' : ''}${endsInText ? ' flows' : ''}`} dir="auto">
          <span class="visually-hidden" dir="ltr">
            {t(sent ? 'chat.you' : 'chat.they')}
          </span>
          {group_id !== undefined && !sent && first && (
            <span class="sender small">
              <Who session={message.session} id={message.from_user} />
            </span>
          )}
          {ref_msg && <Quote quote={ref_msg} onQuote={onQuote} />}
          <Content {...props} />
          <span class="meta" dir="ltr">
            <Time at={message.timestamp}>
              {!sameDay(message.timestamp, ofDay) && `${day(message.timestamp)} `}
              {clock(message.timestamp)}
            </Time>
            {status && <Delivery status={status} />}
          </span>
        </div>
        {message.id > 0 && (
          <MessageBar message={message} bars={bars} onAgain={canAgain ? onAgain : undefined} />
        )}
      </div>
      {sent && <SentBy message={message} last={last} />}
      {/* A message that is not stored yet has its own notes. */}
      {sent && message.id > 0 && <Note {...props} />}
    </article>
  )
})

/** The items of a message. */
function Content({ message, needle, unfolded }: BubbleProps) {
  const { id, items } = message
  if (items.length === 0) return <Unknown />
  return mediaOf(message).map((one, nth) => {
    const { kind, text = '' } = one.item
    if (kind === 'TEXT')
      return <Text key={nth} text={text} row={id} nth={nth} needle={needle} unfolded={unfolded} />
    return kind === 'UNKNOWN' ? <Unknown key={nth} /> : <Media key={nth} {...one} />
  })
}

/** An item that is not text, as its kind needs it. */
export function Media(props: MediaProps) {
  const { kind } = props.item
  if (kind === 'IMAGE') return <Picture {...props} />
  if (kind === 'VIDEO') return <Video {...props} />
  if (kind === 'VOICE') return <Voice {...props} />
  return <Plain {...props} />
}

/** What a state that needs attention means, and what helps. */
function Note({ message, decides, hasAgain, onAgain }: BubbleProps) {
  const { id, session, status, sent_by = 'owner' } = message
  const note = deliveryNote(message)
  if (note === '') return null
  const quoted = quotedReason(message)
  return (
    <p class={`note small ${isCancelled(message) ? '' : status}`}>
      <span class="foreign">{note}</span>
      {quoted !== '' && <span class="foreign soft">{quoted}</span>}
      {decides && mayCancel(sent_by) && (
        <span class="answers">
          <Decide row={id} text="overview.decline" act={cancel} look="button" />
          {may('approve') &&
            (accountOf(session)?.connected ? (
              <Decide row={id} text="overview.approve" act={approve} look="button primary" />
            ) : (
              <LoginFirst name={session} />
            ))}
        </span>
      )}
      {status === 'queued' && !asksFirst(message) && mayCancel(sent_by) && (
        <Decide row={id} text="chat.cancel_queued" act={cancel} look="link" />
      )}
      {status === 'refused' && hasAgain && answering() && (
        <RemedyButton
          remedy={remedyOf(message)}
          session={session}
          again={t('chat.again')}
          onAgain={queue => onAgain(message, queue)}
        />
      )}
    </p>
  )
}

/** Who wrote it, if that was not the owner, and who changed a draft and let it go. The audit log has the rest. */
function SentBy({ message, last }: { message: Message; last: boolean }) {
  const { id, sent_by = 'owner', sent_by_name } = message
  const { changed, principal, name: approver } = approvals.value.get(id) ?? {}
  if (principal === undefined && (!last || sent_by === 'owner')) return null
  const who = isolated(approver ?? callerName(principal ?? ''))
  const name = (
    <>
      <bdi>{sent_by_name ?? callerName(sent_by)}</bdi>
      {principal !== undefined && ` · ${t(changed ? 'chat.changed_by' : 'chat.approved_by', { who })}`}
    </>
  )
  return (
    <p class="by small soft" title={sent_by}>
      <span class="visually-hidden">{t('chat.sent_by')} </span>
      {may('audit') && id > 0 ? (
        <Link href={`/audit?message=${id}`} title={t('nav.audit')}>
          {name}
        </Link>
      ) : (
        name
      )}
    </p>
  )
}

/**
 * What helps after a failed send. If the user has written since, the window is open and sending again works.
 */
function remedyOf(message: Message): Remedy {
  const remedy = remedyFor(isCancelled(message) ? 'not_found' : (message.reason_code ?? ''))
  const wrote = userOf(message.session, message.to_user)?.last_received ?? 0
  return (remedy === 'queue' || remedy === 'later') && wrote > message.timestamp ? 'again' : remedy
}

const Unknown = () => <p class="unknown soft">{t('chat.unknown_about')}</p>

function Text(props: { text: string; row: number; nth: number; needle: string; unfolded: Set<number> }) {
  const { text, row, nth, needle, unfolded } = props
  const whole = useSignal(unfolded.has(row))
  const cut = cutAt(text)
  const folds = cut < text.length
  const visible = !folds || whole.value ? text : text.slice(0, cut)
  return (
    <div class="text foreign" dir="auto" data-nth={nth}>
      <Rich text={visible} needle={needle} />
      {folds && !whole.value && '…'}
      {folds && (
        <button
          type="button"
          class="link fold"
          aria-expanded={whole.value}
          onClick={() => {
            whole.value = !whole.value
            if (whole.value) unfolded.add(row)
            else unfolded.delete(row)
          }}
        >
          {whole.value ? t('chat.less') : t('chat.all', { chars: number(text.length) })}
        </button>
      )}
    </div>
  )
}

function Quote({
  quote,
  onQuote,
}: {
  quote: NonNullable<Message['ref_msg']>
  onQuote: BubbleProps['onQuote']
}) {
  const words = quote.text || (quote.msg_type ? itemWords({ kind: quote.msg_type }) : t('chat.gone'))
  const inner = (
    <>
      <span class="visually-hidden">{t('chat.quote')} </span>
      <span class="foreign" dir="auto">
        {quote.partial && '… '}
        {words.slice(0, 280)}
        {quote.partial && ' …'}
      </span>
    </>
  )
  return quote.message_id === undefined ? (
    <blockquote class="quote">{inner}</blockquote>
  ) : (
    <button type="button" class="quote" title={t('chat.quote_jump')} onClick={() => onQuote(quote)}>
      {inner}
    </button>
  )
}

const approve = (id: string) => call('approve_outbox', { id })
const cancel = (id: string) => call('cancel_outbox', { id })

interface DecideProps {
  row: number
  text: TextKey
  look: 'link' | 'button' | 'button primary'
  act(outboxId: string): Promise<unknown>
}

/** Cancels or approves a waiting message, with all parts of the same send. */
function Decide({ row, text, act, look }: DecideProps) {
  const { busy, work } = useWork()
  const decide = async () => {
    const outbox = await call('list_outbox', {})
    const entry = outbox.find(({ parts }) => parts.some(({ id }) => id === row))
    if (entry) await act(entry.outbox_id)
  }
  return (
    <button type="button" class={look} aria-disabled={busy.value} onClick={() => work(decide)}>
      {t(text)}
    </button>
  )
}
