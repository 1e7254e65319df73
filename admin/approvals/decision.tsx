/** The buttons below a send that waits. */
import type { OutboxEntry } from '../api.ts'
import { type TextKey, t } from '../i18n.ts'
import { may, mayCancel } from '../rights.ts'
import { LoginFirst } from '../sessions/login-first.tsx'
import { accountOf } from '../sessions/names.ts'
import { isEditable, lineOf, shelfOf } from './drafts.ts'

interface DecisionProps {
  entry: OutboxEntry
  /** Whether the draft has been seen, and no decision is under way. */
  isReady: boolean
  isEdited: boolean
  onSend(): void
  onEdit(): void
  onUndo(): void
  onCancel(): void
}

export function Decision({ entry, isReady, isEdited, onSend, onEdit, onUndo, onCancel }: DecisionProps) {
  const shelf = shelfOf(entry)
  const isConnected = accountOf(entry.session)?.connected === true
  const text = lineOf(entry).slice(0, 80)
  const button = (key: TextKey, about: TextKey, look: string, act: () => void) => (
    <button
      type="button"
      class={`button ${look}`}
      aria-disabled={!isReady}
      aria-label={t(about, { text })}
      // The second click of a double click was meant for the draft before.
      onClick={event => event.detail < 2 && act()}
    >
      {t(key)}
    </button>
  )
  return (
    <footer class="answers">
      {mayCancel(entry.made_by) &&
        (shelf === 'queued'
          ? button('chat.cancel_queued', 'overview.call_off_what', 'no', onCancel)
          : button('overview.decline', 'overview.decline_what', 'no', onCancel))}
      {shelf === 'others' && (
        <p class="soft small">{t(may('approve') ? 'approvals.own' : 'approvals.not_yours')}</p>
      )}
      {shelf === 'mine' && isConnected && (
        <>
          {!isEdited && isEditable(entry) && button('overview.edit', 'overview.edit_what', 'edit', onEdit)}
          {isEdited && button('overview.edit_undo', 'overview.edit_undo', 'undo', onUndo)}
          {isEdited
            ? button('overview.approve_edited', 'overview.approve_edited_what', 'primary yes', onSend)
            : button('overview.approve', 'overview.approve_what', 'primary yes', onSend)}
        </>
      )}
      {shelf === 'mine' && !isConnected && <LoginFirst name={entry.session} />}
    </footer>
  )
}
