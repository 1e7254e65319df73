/** A send that waits: to whom, what was said before, its content, and the decision. */
import { type Signal, useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { askOutboxAgain } from '../answers.ts'
import { call, type Message, type OutboxEntry } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { laterPart } from '../ui/lazy-page.tsx'
import { set } from '../ui/set.ts'
import { tell, tellError } from '../ui/toasts.tsx'
import { isSendKey, useWork } from '../ui/work.ts'
import { Decision } from './decision.tsx'
import { editedOf, textOf, useTalk } from './drafts.ts'
import { approveSoon, noteDecided } from './leaving.ts'
import { Content, Said } from './said.tsx'
import { Origin, To } from './to.tsx'

const Lightbox = laterPart(async () => (await import('../conversations/chat.tsx')).Lightbox)

interface DraftProps {
  entry: OutboxEntry
  /** The one that opens after this one. Its conversation is loaded ahead of time. */
  next: OutboxEntry | undefined
  /** Called when the caller has decided. */
  onDecided(): void
}

/** A press so soon after a draft came was meant for the one before it. */
const unseenMs = 500

function useSeen(): boolean {
  const isSeen = useSignal(false)
  useEffect(() => {
    const timer = setTimeout(set(isSeen, true), unseenMs)
    return () => clearTimeout(timer)
  }, [])
  return isSeen.value
}

export function Draft({ entry, next, onDecided }: DraftProps) {
  const { outbox_id: id, session, to_user } = entry
  const messages = useTalk(entry, next)
  const { busy, work } = useWork()
  const edited = editedOf(id)
  const article = useRef<HTMLElement>(null)
  const isReady = useSeen() && messages !== undefined && !busy.value
  const focusOn = (selector: string) =>
    queueMicrotask(() => article.current?.querySelector<HTMLElement>(selector)?.focus())
  const send = () => {
    if (!isReady) return
    approveSoon(entry, edited.value, tellError)
    onDecided()
  }
  const cancel = () =>
    isReady &&
    work(async () => {
      await call('cancel_outbox', { id }).finally(askOutboxAgain)
      tell(t('overview.called_off'))
      noteDecided(id, true)
      onDecided()
    })
  const edit = (text: string | undefined) => {
    edited.value = text
    focusOn(text === undefined ? '.edit' : 'textarea')
  }
  const label = t('overview.asked_what', { name: isolated(nameOf(session, to_user) ?? to_user) })
  return (
    <article
      class="draft"
      ref={article}
      tabIndex={-1}
      aria-label={label}
      onKeyDown={keysOf({ entry, edited, send, edit, focusOn })}
    >
      <To entry={entry} />
      {messages ? (
        <Talk entry={entry} messages={messages} edited={edited} label={label} />
      ) : (
        <div class="draft-talk" aria-busy="true">
          <span class="skeleton block" />
        </div>
      )}
      <Decision
        entry={entry}
        isReady={isReady}
        isEdited={edited.value !== undefined}
        onSend={send}
        onEdit={() => edit(textOf(entry))}
        onUndo={() => edit(undefined)}
        onCancel={cancel}
      />
      <Lightbox />
    </article>
  )
}

interface KeysProps {
  entry: OutboxEntry
  edited: Signal<string | undefined>
  send(): void
  edit(text: string | undefined): void
  focusOn(selector: string): void
}

/** Enter goes to the button, and sends a changed text. Escape ends the writing, and loses nothing. */
function keysOf({ entry, edited, send, edit, focusOn }: KeysProps) {
  const onWriting = (event: KeyboardEvent) => {
    const isSame = edited.value === textOf(entry)
    if (isSendKey(event)) {
      event.preventDefault()
      // A second Enter on "Edit" changes nothing, so it sends nothing.
      if (!isSame) send()
    } else if (event.key === 'Escape') {
      // What was typed goes only by the button.
      if (isSame) edit(undefined)
      else focusOn('.undo')
    }
  }
  return (event: KeyboardEvent) => {
    const { key, repeat, target, currentTarget } = event
    if (target instanceof HTMLTextAreaElement) return onWriting(event)
    const isStep = key === 'Enter' && target === currentTarget
    // The same press must not go on to the button that it focuses, nor one that is held down to the next draft.
    if (isStep || (key === 'Enter' && repeat)) event.preventDefault()
    if (isStep && !repeat) focusOn('.yes')
  }
}

interface TalkProps {
  entry: OutboxEntry
  messages: readonly Message[]
  edited: Signal<string | undefined>
  label: string
}

/** The conversation, which ends with the draft. */
function Talk({ entry, messages, edited, label }: TalkProps) {
  const content = useRef<HTMLDivElement>(null)
  // The draft stays in view while the head above it and its own files get their sizes.
  useLayoutEffect(() => {
    const draft = content.current!
    const talk = draft.parentElement!
    const show = () =>
      draft.scrollIntoView({ block: draft.offsetHeight < talk.clientHeight ? 'end' : 'start' })
    show()
    const observer = new ResizeObserver(show)
    observer.observe(talk)
    return () => observer.disconnect()
  }, [edited.value === undefined])
  return (
    <section
      class="draft-talk"
      aria-label={t('approvals.talk')}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text is scrolled by keys
      tabIndex={0}
    >
      <Said messages={messages} answers={entry.answers} />
      <div class="draft-content" ref={content}>
        <Origin entry={entry} />
        {edited.value !== undefined && (
          <textarea
            class="input"
            aria-label={label}
            rows={5}
            dir="auto"
            value={edited.value}
            onInput={event => {
              edited.value = event.currentTarget.value
            }}
          />
        )}
        <Content entry={entry} {...(edited.value !== undefined && { text: '' })} />
      </div>
    </section>
  )
}
