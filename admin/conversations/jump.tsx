/** A dialog that goes to the messages of a day. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { hrefOf, type Place } from '../place.ts'
import { navigate } from '../service-urls.ts'
import { dateOf, dayFrom, now } from '../times.ts'
import { Ask } from '../ui/ask.tsx'
import { Field } from '../ui/field.tsx'
import type { Thread } from './thread.ts'

export function Jump({ thread, place, onClose }: { thread: Thread; place: Place; onClose(): void }) {
  const field = useRef<HTMLInputElement>(null)
  const problem = useSignal('')
  const go = async () => {
    const day = field.current?.value ?? ''
    if (day === '') return field.current?.focus()
    problem.value = ''
    const m = await thread.firstSince(dayFrom(day))
    // The dialog was closed.
    if (!field.current) return
    if (m === undefined) {
      problem.value = t('chat.jump_none')
      return
    }
    onClose()
    navigate(hrefOf({ ...place, m, media: '' }))
  }
  return (
    <Ask title={t('chat.jump')} action={t('chat.jump_go')} onClose={onClose} run={go}>
      <Field
        label={t('chat.jump_day')}
        problem={problem.value}
        input={{
          type: 'date',
          ref: field,
          'data-autofocus': true,
          defaultValue: dateOf(thread.messages.value[0]?.timestamp ?? now.value),
          max: dateOf(now.value),
        }}
      />
    </Ask>
  )
}
