/** What waits in the outbox, and calling it off. */
import { useSignal } from '@preact/signals'
import { api, type OutboxEntry } from '../api.ts'
import { Who } from '../conversations/avatar.tsx'
import { itemWords } from '../conversations/message-summary.ts'
import { hrefOf } from '../conversations/place.ts'
import { t } from '../i18n.ts'
import { relative } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { tell, tellError } from '../ui/toasts.tsx'

const shown = 20

export function Queue({ entries, onChange }: { entries: readonly OutboxEntry[]; onChange(): void }) {
  return (
    <details class="queue">
      <summary>{t('overview.queued_show')}</summary>
      <ul>
        {entries.slice(0, shown).map(entry => (
          <Entry key={entry.outbox_id} entry={entry} onChange={onChange} />
        ))}
      </ul>
      {entries.length > shown && <p class="soft">{t('overview.more', { count: entries.length - shown })}</p>}
    </details>
  )
}

function Entry({ entry, onChange }: { entry: OutboxEntry; onChange(): void }) {
  const busy = useSignal(false)
  const words = wordsOf(entry)
  const callOff = async () => {
    busy.value = true
    try {
      await api.cancelQueued(entry.outbox_id)
      tell(t('overview.called_off'))
      onChange()
    } catch (error) {
      tellError(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <li>
      <Link href={hrefOf({ session: entry.session, userId: entry.to_user })}>
        <Who session={entry.session} id={entry.to_user} />
      </Link>
      <p class="cut">
        <bdi>{words}</bdi>
      </p>
      <p class="soft small">{t('overview.lapses', { when: relative(entry.expires_at) })}</p>
      <button
        type="button"
        class="button"
        disabled={busy.value}
        aria-label={t('overview.call_off_what', { text: words.slice(0, 80) })}
        onClick={callOff}
      >
        {t('chat.cancel_queued')}
      </button>
    </li>
  )
}

const wordsOf = ({ parts }: OutboxEntry): string =>
  parts
    .map(({ kind, text, file_name }) =>
      kind === 'text'
        ? (text ?? '')
        : itemWords({ kind: kind.toUpperCase() as 'FILE', ...(file_name !== undefined && { file_name }) }),
    )
    .join(' · ')
    .slice(0, 200)
