/** Sends or declines several drafts at once. The question shows each one with its recipient. */
import { useSignal } from '@preact/signals'
import { askOutboxAgain } from '../answers.ts'
import { call, type OutboxEntry } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { accountOf } from '../sessions/names.ts'
import { Ask } from '../ui/ask.tsx'
import { set } from '../ui/set.ts'
import { tell } from '../ui/toasts.tsx'
import { Who } from '../users/avatar.tsx'
import { editedOf } from './drafts.ts'
import { noteDecided } from './leaving.ts'
import type { Chosen } from './list.tsx'
import { Content } from './said.tsx'

/** They go to the next and to the previous draft. */
const nextKeys = ['J', 'K']

export function Several({ entries, chosen }: { entries: readonly OutboxEntry[]; chosen: Chosen }) {
  /** What the question is about. */
  const asks = useSignal<'send' | 'decline' | undefined>(undefined)
  const some = entries.filter(({ outbox_id }) => chosen.value.has(outbox_id))
  const all = entries.length > 0 && some.length === entries.length
  const mayGo = some.every(({ session }) => accountOf(session)?.connected)
  return (
    <div class="several">
      <label>
        <input
          type="checkbox"
          checked={all}
          indeterminate={some.length > 0 && !all}
          onChange={() => {
            chosen.value = new Set(all ? [] : entries.map(({ outbox_id }) => outbox_id))
          }}
        />
        {some.length === 0 ? t('approvals.choose_all') : t('approvals.chosen', { count: some.length })}
      </label>
      {some.length === 0 && (
        <span aria-hidden="true">
          {nextKeys.map(name => (
            <kbd key={name}>{name}</kbd>
          ))}
        </span>
      )}
      {some.length > 0 && (
        <>
          <button type="button" class="button plain" onClick={set(asks, 'decline')}>
            {t('approvals.decline_these')}
          </button>
          {mayGo && (
            <button type="button" class="button plain" onClick={set(asks, 'send')}>
              {t('approvals.send_these')}
            </button>
          )}
        </>
      )}
      {asks.value && (
        <AskFor
          sends={asks.value === 'send'}
          entries={some}
          onClose={set(asks, undefined)}
          onDone={id => {
            noteDecided(id, true)
            chosen.value = new Set([...chosen.value].filter(one => one !== id))
          }}
        />
      )}
    </div>
  )
}

interface AskForProps {
  sends: boolean
  entries: readonly OutboxEntry[]
  onClose(): void
  /** Called after each one. */
  onDone(id: string): void
}

function AskFor({ sends, entries, onClose, onDone }: AskForProps) {
  // What is decided elsewhere meanwhile must not change the list under the finger.
  const shown = useSignal(entries).value
  const count = shown.length
  const run = async () => {
    try {
      for (const { outbox_id: id } of shown) {
        const text = editedOf(id).value
        if (sends) await call('approve_outbox', { id, ...(text !== undefined && { text }) })
        else await call('cancel_outbox', { id })
        onDone(id)
      }
      tell(t(sends ? 'overview.approved' : 'overview.called_off'))
    } finally {
      askOutboxAgain()
    }
    onClose()
  }
  return (
    <Ask
      alert
      danger={!sends}
      title={t(sends ? 'approvals.send_ask' : 'approvals.decline_ask', { count })}
      action={t(sends ? 'approvals.send_go' : 'approvals.decline_go', { count })}
      onClose={onClose}
      run={run}
    >
      {sends && <p class="soft">{t('overview.approve_all_about')}</p>}
      <ul class="asked-all">
        {shown.map(entry => (
          <li key={entry.outbox_id}>
            <h3>
              <Who session={entry.session} id={entry.to_user} />
              <span class="soft small foreign">{t('approvals.from', { name: isolated(entry.session) })}</span>
            </h3>
            <Content entry={entry} text={editedOf(entry.outbox_id).value} />
          </li>
        ))}
      </ul>
    </Ask>
  )
}
