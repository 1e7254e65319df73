/**
 * Sends that wait in the outbox, for their user or for approval, and the buttons to approve or cancel them.
 */
import { type Signal, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { outbox, seesOutbox } from '../answers.ts'
import { call, type Message, type OutboxEntry, waitingFileUrl } from '../api.ts'
import { itemWords, preview } from '../conversations/message-summary.ts'
import { gap, isolated, type TextKey, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { hrefOf } from '../place.ts'
import { callerName, may, mayCancel } from '../rights.ts'
import { LoginFirst } from '../sessions/login-first.tsx'
import { accountOf } from '../sessions/names.ts'
import { ago, relative } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { tell } from '../ui/toasts.tsx'
import { isSendKey, useWork } from '../ui/work.ts'
import { Who } from '../users/avatar.tsx'
import { ApproveAll } from './approve-all.tsx'

const mostShown = 20

/** The messages that drafts answer, by the id of the draft. */
const answered = signal<ReadonlyMap<string, string>>(new Map())

/**
 * Returns the waiting sends; undefined until they are loaded. A draft comes with the messages that it answers:
 * if they came later, they would move the buttons.
 */
export function useQueue(): readonly OutboxEntry[] | undefined {
  const all = seesOutbox() ? outbox.value : []
  const isDrawn = useRef(false)
  const known = answered.value
  const isKnown = ({ outbox_id: id }: OutboxEntry) => known.has(id) || !asked.includes(id)
  const drafts = all?.filter(({ waits_for }) => waits_for === 'approval').slice(0, 2 * mostShown) ?? []
  const asked = may('history') ? drafts.map(({ outbox_id }) => outbox_id) : []
  useEffect(() => {
    for (const draft of drafts)
      if (!known.has(draft.outbox_id))
        void answeredBy(draft).then(said => {
          answered.value = new Map(answered.value).set(draft.outbox_id, said)
        })
  }, [asked.join(' ')])
  const shown = all?.filter(isKnown)
  isDrawn.current ||= shown !== undefined && shown.length === all?.length
  return isDrawn.current ? shown : undefined
}

export function Entries({ entries, onChange }: { entries: readonly OutboxEntry[]; onChange(): void }) {
  const shown = entries.slice(0, mostShown)
  return (
    <div class="queue">
      {may('approve') && <ApproveAll entries={shown} onChange={onChange} />}
      <ul>
        {shown.map(entry => (
          <Entry key={entry.outbox_id} entry={entry} onChange={onChange} />
        ))}
      </ul>
      {entries.length > mostShown && (
        <p class="soft">{t('overview.more', { count: entries.length - mostShown })}</p>
      )}
    </div>
  )
}

function Entry({ entry, onChange }: { entry: OutboxEntry; onChange(): void }) {
  const { busy, work } = useWork()
  const edited = editedOf(entry.outbox_id)
  const line = useRef<HTMLLIElement>(null)
  const focusOn = (selector: string) =>
    queueMicrotask(() => line.current?.querySelector<HTMLElement>(selector)?.focus())
  const edit = () => {
    edited.value = textOf(entry)
    focusOn('textarea')
  }
  const undo = () => {
    edited.value = undefined
    focusOn('.edit')
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (isSendKey(event)) {
      event.preventDefault()
      decide(yes, 'overview.approved')
    } else if (event.key === 'Escape') {
      // What was typed goes only by the button.
      if (edited.value === textOf(entry)) undo()
      else focusOn('.undo')
    }
  }
  const {
    created_at,
    expires_at,
    outbox_id: id,
    session,
    to_user,
    waits_for,
    made_by = '',
    made_by_name,
  } = entry
  const asks = waits_for === 'approval'
  const approves = may('approve') && accountOf(session)?.connected === true
  const text = entry.parts.map(wordsOf).join(' · ').slice(0, 200)
  const when = ago(created_at)
  const button = (key: TextKey, about: TextKey, act: () => Promise<unknown>, done: TextKey, how = '') => (
    <button
      type="button"
      class={`button ${how}`}
      aria-disabled={busy.value}
      aria-label={t(about, { text: text.slice(0, 80) })}
      onClick={() => decide(act, done)}
    >
      {t(key)}
    </button>
  )
  const decide = (act: () => Promise<unknown>, done: TextKey) =>
    work(() =>
      act()
        .then(() => tell(t(done)))
        .finally(onChange),
    )
  const no = () => call('cancel_outbox', { id })
  const yes = () => call('approve_outbox', { id, ...(edited.value !== undefined && { text: edited.value }) })
  return (
    <li ref={line} class={asks ? 'asks' : ''}>
      <Link href={hrefOf({ session, userId: to_user })}>
        <Who session={session} id={to_user} />
      </Link>
      {asks ? (
        <Asked entry={entry} edited={edited} onKeyDown={onKeyDown} />
      ) : (
        <p class="cut">
          <bdi>{text}</bdi>
        </p>
      )}
      <p class="soft small">
        {asks &&
          `${
            made_by_name === undefined
              ? t('overview.asked', { name: isolated(session), when })
              : t('overview.asked_by', {
                  maker: isolated(callerName(made_by, made_by_name)),
                  name: isolated(session),
                  when,
                })
          }${gap()}`}
        {t('overview.lapses', { when: relative(expires_at) })}
      </p>
      {asks ? (
        <div class="answers">
          {mayCancel(entry.made_by) &&
            button('overview.decline', 'overview.decline_what', no, 'overview.called_off')}
          {approves && edited.value === undefined && textsOf(entry).length === 1 && (
            <button
              type="button"
              class="button edit"
              aria-label={t('overview.edit_what', { text: text.slice(0, 80) })}
              onClick={edit}
            >
              {t('overview.edit')}
            </button>
          )}
          {edited.value !== undefined && (
            <button type="button" class="button undo" onClick={undo}>
              {t('overview.edit_undo')}
            </button>
          )}
          {may('approve') &&
            (approves ? (
              button(
                edited.value === undefined ? 'overview.approve' : 'overview.approve_edited',
                edited.value === undefined ? 'overview.approve_what' : 'overview.approve_edited_what',
                yes,
                'overview.approved',
                'primary',
              )
            ) : (
              <LoginFirst name={session} />
            ))}
        </div>
      ) : (
        mayCancel(entry.made_by) &&
        button('chat.cancel_queued', 'overview.call_off_what', no, 'overview.called_off')
      )}
    </li>
  )
}

const textsOf = ({ parts }: OutboxEntry) => parts.filter(({ kind }) => kind === 'text')
const textOf = (entry: OutboxEntry): string =>
  textsOf(entry)
    .map(({ text }) => text)
    .join('\n\n')

/** The texts that are edited, by the id of the draft: they are still there after a visit to another page. */
const edits = new Map<string, Signal<string | undefined>>()
function editedOf(id: string): Signal<string | undefined> {
  const known = edits.get(id) ?? signal(undefined)
  edits.set(id, known)
  return known
}

interface AskedProps {
  entry: OutboxEntry
  edited: Signal<string | undefined>
  onKeyDown(event: KeyboardEvent): void
}

/** The full content, with files outside of the scrolling part. A person must see all that they approve. */
function Asked({ entry, edited, onKeyDown }: AskedProps) {
  const { parts, session, to_user: to } = entry
  const label = t('overview.asked_what', { name: isolated(nameOf(session, to) ?? to) })
  return (
    <>
      <Answered entry={entry} />
      {edited.value !== undefined && (
        <textarea
          class="input asked"
          aria-label={label}
          rows={5}
          dir="auto"
          value={edited.value}
          onInput={event => {
            edited.value = event.currentTarget.value
          }}
          onKeyDown={onKeyDown}
        />
      )}
      {edited.value === undefined && textsOf(entry).length > 0 && (
        <blockquote
          class="asked foreign"
          aria-label={label}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text is scrolled by keys
          tabIndex={0}
          dir="auto"
        >
          {textOf(entry)}
        </blockquote>
      )}
      {parts.map(
        ({ id, kind, file_name, source }) =>
          kind !== 'text' && (
            <p key={id} class="asked-file">
              {kind === 'image' && <img src={waitingFileUrl(id)} alt="" loading="lazy" />}
              <Icon name={kind === 'image' ? 'image' : 'file'} size={16} />
              <a class="link" href={waitingFileUrl(id)} download>
                <bdi>{file_name}</bdi>
              </a>
              <bdi class="soft small">{source}</bdi>
            </p>
          ),
      )}
    </>
  )
}

/** Returns what a draft answers: the messages that its agent names, else the newest one before it. */
async function answeredBy({ answers, parts, session, to_user: user_id }: OutboxEntry): Promise<string> {
  const before = (answers?.at(-1) ?? (parts[0]?.id ?? 1) - 1) + 1
  const limit = answers ? 50 : 1
  const wanted = { session, user_id, direction: 'received', before, limit } as const
  // The draft can be judged without it.
  const { messages } = await call('list_messages', wanted).catch(() => ({ messages: [] }))
  const named = messages.filter(({ id }) => answers?.includes(id) ?? true)
  return named.reverse().map(wholeText).join('\n')
}

function Answered({ entry }: { entry: OutboxEntry }) {
  const said = answered.value.get(entry.outbox_id) ?? ''
  if (said === '') return null
  return (
    <div class="soft">
      {t('overview.answers')}
      <blockquote
        class="asked foreign"
        aria-label={t('overview.answers')}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text is scrolled by keys
        tabIndex={0}
        dir="auto"
      >
        {said}
      </blockquote>
    </div>
  )
}

/** The whole text of a message, or what else it is. */
const wholeText = (message: Message): string =>
  message.msg_type === 'TEXT' ? message.text : preview(message)

const wordsOf = ({ kind, text, file_name }: OutboxEntry['parts'][number]): string =>
  kind === 'text'
    ? (text ?? '')
    : itemWords({ kind: kind.toUpperCase() as 'FILE', ...(file_name !== undefined && { file_name }) })
