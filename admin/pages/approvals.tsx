/** The sends that wait for a person, one beside its conversation, and those that are sent by themselves. */
import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { useParams } from 'wouter-preact'
import type { OutboxEntry } from '../api.ts'
import { Draft } from '../approvals/draft.tsx'
import { type Shelf, shelfOf, shelves, waiting } from '../approvals/drafts.ts'
import { leaving, takeBack } from '../approvals/leaving.ts'
import { type Chosen, List, toggle } from '../approvals/list.tsx'
import { Several } from '../approvals/several.tsx'
import { isolated, type TextKey, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { useParam } from '../place.ts'
import { may } from '../rights.ts'
import { narrow } from '../screen.ts'
import { navigate } from '../service-urls.ts'
import { Icon, IconButton } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { LoadingRows, Nothing, PageHead } from '../ui/list-page.tsx'
import { Tabs } from '../ui/tabs.tsx'

const pathOf = (id: string, shelf: Shelf) =>
  `/approvals${id && `/${encodeURIComponent(id)}`}${shelf === 'mine' ? '' : `?show=${shelf}`}`

export function Approvals() {
  const all = waiting()
  const { id = '' } = useParams()
  const wanted = useParam('show')
  const first = may('approve') ? 'mine' : 'others'
  const shelf = shelves.find(one => one === wanted) ?? first
  const entries = all?.filter(one => shelfOf(one) === shelf)
  const countOf = (one: Shelf) => all?.filter(entry => shelfOf(entry) === one).length ?? 0
  const tabs = shelves
    .filter(one => one === first || one === shelf || one === 'queued' || countOf(one) > 0)
    .map(one => ({ id: one, text: t(`approvals.${one}`), count: countOf(one) || undefined }))
  return (
    <div class={`page approvals${id === '' ? '' : ' opened'}`}>
      <PageHead title={t('approvals.title')} />
      {all ? (
        <Tabs
          label={t('approvals.title')}
          tabs={tabs}
          value={shelf}
          onChange={to => navigate(pathOf('', to))}
        />
      ) : (
        <p class="skeleton line" />
      )}
      {!entries ? (
        <LoadingRows />
      ) : entries.length === 0 && id === '' && leaving.value.size === 0 ? (
        <Nothing
          icon="approvals"
          title={t(`approvals.none_${shelf}`)}
          about={t(`approvals.about_${shelf}`)}
        />
      ) : (
        <Desk key={shelf} entries={entries} shelf={shelf} id={id} />
      )}
    </div>
  )
}

interface DeskProps {
  entries: readonly OutboxEntry[]
  shelf: Shelf
  /** The id of the open one; '' for none. */
  id: string
}

/** The list and the open one. */
function Desk({ entries, shelf, id }: DeskProps) {
  const picked = useSignal<ReadonlySet<string>>(new Set())
  const chosen = shelf === 'mine' ? picked : undefined
  const pane = useRef<HTMLDivElement>(null)
  const isStep = useRef(false)
  const at = entries.findIndex(one => one.outbox_id === id)
  const entry = entries[at]
  /** After the last one comes the first. */
  const next = entries.length > 1 || at < 0 ? entries[(at + 1) % entries.length] : undefined
  const open = (one: OutboxEntry | undefined, step: boolean) => {
    isStep.current = step
    navigate(pathOf(one?.outbox_id ?? '', shelf), { replace: true })
  }
  useLayoutEffect(() => {
    // The focus is on the draft, not on a button: a second Enter sends nothing.
    if (id !== '' && (isStep.current || pane.current!.contains(document.activeElement)))
      pane.current!.querySelector<HTMLElement>('article')?.focus()
    isStep.current = false
  }, [id])
  const isPhone = narrow.value
  useLayoutEffect(() => {
    // On a phone the list comes first.
    if (id === '' && !isPhone) open(entries[0], false)
  }, [id, isPhone])
  useKeys({ entries, at, chosen, pane, open: one => open(one, true) })
  return (
    <div class="desk" ref={pane}>
      <div class="desk-list">
        {chosen && <Several entries={entries} chosen={chosen} />}
        <List entries={entries} open={id} hrefOf={one => pathOf(one, shelf)} chosen={chosen} />
      </div>
      <div class="desk-open">
        <nav class="desk-bar">
          <Link class="button plain" href={pathOf('', shelf)}>
            <Icon name="back" />
            {t('approvals.back')}
          </Link>
          <Step to={entries[at - 1]} text="approvals.previous" open={open} />
          <Step to={entries[at + 1]} text="approvals.next" open={open} />
        </nav>
        <Leaving onBack={one => open(one, true)} />
        {entry && <Draft key={id} entry={entry} next={next} onDecided={() => open(next, true)} />}
        {!entry && id !== '' && <Gone onNext={next && (() => open(next, true))} />}
      </div>
    </div>
  )
}

/** The approved sends that go in a moment, each with a button that takes it back. */
const Leaving = ({ onBack }: { onBack(one: OutboxEntry): void }) => (
  <div role="status">
    {[...leaving.value.values()].map(({ entry }) => (
      <p key={entry.outbox_id} class="leaving small">
        <Icon name="clock" size={16} />
        <span class="foreign cut grow">
          {t('approvals.leaving', { name: isolated(nameOf(entry.session, entry.to_user) ?? entry.to_user) })}
        </span>
        <button
          type="button"
          class="link"
          onClick={() => {
            takeBack(entry.outbox_id)
            onBack(entry)
          }}
        >
          {t('approvals.take_back')}
        </button>
      </p>
    ))}
  </div>
)

interface StepProps {
  /** Absent at the ends of the list. */
  to: OutboxEntry | undefined
  text: TextKey
  open(one: OutboxEntry, step: boolean): void
}

/** On a phone, where the list is not beside the open one. */
const Step = ({ to, text, open }: StepProps) => (
  <IconButton icon="chevron" label={t(text)} aria-disabled={!to} onClick={() => to && open(to, true)} />
)

/** In place of a draft about which somebody else has decided. The next one does not come by itself: a finger may be there. */
const Gone = ({ onNext }: { onNext?: (() => void) | undefined }) => (
  <article class="empty" tabIndex={-1}>
    <h2>{t('approvals.gone')}</h2>
    <p>{t('approvals.gone_about')}</p>
    {onNext && (
      <button type="button" class="button" onClick={onNext}>
        {t('approvals.next')}
      </button>
    )}
  </article>
)

interface KeysOf {
  entries: readonly OutboxEntry[]
  /** The place of the open one; -1 if it is gone. */
  at: number
  /** Absent where several are not decided about at once. */
  chosen: Chosen | undefined
  pane: RefObject<HTMLDivElement | null>
  open(one: OutboxEntry): void
}

/** J and K open the next and the last one, E edits, X chooses. No key sends or declines. */
function useKeys(keys: KeysOf): void {
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { entries, at, chosen, pane, open } = latest.current
      const isWriting = (event.target as HTMLElement).matches('input:not([type=checkbox]), textarea, select')
      const isHeld = event.ctrlKey || event.metaKey || event.altKey
      if (isWriting || isHeld || document.querySelector('[role$=dialog]')) return
      const key = event.key.toLowerCase()
      const step = { j: 1, k: -1 }[key]
      const to = step === undefined ? undefined : entries[at + step]
      if (to) open(to)
      if (key === 'x' && entries[at] && chosen) toggle(chosen, entries[at].outbox_id)
      if (key !== 'e') return
      event.preventDefault()
      pane.current?.querySelector<HTMLElement>('.edit')?.click()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}
