/** Approves all sends of one key that are shown. */
import { useSignal } from '@preact/signals'
import { call, type OutboxEntry } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { callerName } from '../rights.ts'
import { Ask } from '../ui/ask.tsx'
import { set } from '../ui/set.ts'
import { tell } from '../ui/toasts.tsx'

interface ApproveAllProps {
  entries: readonly OutboxEntry[]
  onChange(): void
}

/** A button for each key that asks for several sends. */
export function ApproveAll({ entries, onChange }: ApproveAllProps) {
  const makers = new Map<string, OutboxEntry[]>()
  for (const entry of entries) {
    if (entry.waits_for !== 'approval' || entry.made_by_name === undefined) continue
    makers.set(entry.made_by ?? '', [...(makers.get(entry.made_by ?? '') ?? []), entry])
  }
  const many = [...makers].filter(([, own]) => own.length > 1)
  return many.length === 0 ? null : (
    <div class="answers">
      {many.map(([maker, own]) => (
        <OneMaker key={maker} entries={own} onChange={onChange} />
      ))}
    </div>
  )
}

function OneMaker({ entries, onChange }: ApproveAllProps) {
  const asks = useSignal(false)
  const count = entries.length
  const [{ made_by = '', made_by_name } = {} as Partial<OutboxEntry>] = entries
  const name = isolated(callerName(made_by, made_by_name))
  const title = t('overview.approve_all', { count, name })
  return (
    <>
      <button type="button" class="button" onClick={set(asks, true)}>
        {title}
      </button>
      {asks.value && (
        <Ask
          alert
          title={title}
          action={t('overview.approve_all_go', { count })}
          onClose={set(asks, false)}
          run={async () => {
            try {
              for (const { outbox_id: id } of entries) await call('approve_outbox', { id })
              tell(t('overview.approved'))
            } finally {
              onChange()
            }
            asks.value = false
          }}
        >
          <p>{t('overview.approve_all_about')}</p>
        </Ask>
      )}
    </>
  )
}
