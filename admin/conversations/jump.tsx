/** Asks for a day, and goes to what was said then. */
import { useSignal } from '@preact/signals'
import { useId, useRef } from 'preact/hooks'
import { navigate } from 'wouter-preact/use-browser-location'
import { t } from '../i18n.ts'
import { dateOf, dayFrom, now } from '../times.ts'
import { Dialog } from '../ui/dialog.tsx'
import { tellError } from '../ui/toasts.tsx'
import { hrefOf, type Place } from './place.ts'
import type { Thread } from './thread.ts'

export function Jump({ thread, place, onClose }: { thread: Thread; place: Place; onClose(): void }) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const busy = useSignal(false)
  const problem = useSignal('')
  const go = async (event: SubmitEvent) => {
    event.preventDefault()
    const day = field.current?.value ?? ''
    if (day === '' || busy.value) return field.current?.focus()
    busy.value = true
    problem.value = ''
    try {
      const m = await thread.firstSince(dayFrom(day))
      if (m === undefined) {
        problem.value = t('chat.jump_none')
        return
      }
      onClose()
      navigate(hrefOf({ ...place, m, media: '' }))
    } catch (error) {
      tellError(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <Dialog
      title={t('chat.jump')}
      onClose={onClose}
      footer={
        <>
          <button class="button" type="button" onClick={onClose}>
            {t('action.cancel')}
          </button>
          <button class="button primary" type="submit" form={`${id} form`} aria-disabled={busy.value}>
            {t('chat.jump_go')}
          </button>
        </>
      }
    >
      <form class="field" id={`${id} form`} onSubmit={go} noValidate>
        <label for={id}>{t('chat.jump_day')}</label>
        <input
          class="input"
          type="date"
          id={id}
          ref={field}
          data-autofocus
          defaultValue={dateOf(thread.messages.value[0]?.timestamp ?? now.value)}
          max={dateOf(now.value)}
          aria-describedby={`${id} problem`}
          aria-invalid={problem.value !== ''}
        />
        <p class="problem" id={`${id} problem`} role="alert">
          {problem.value}
        </p>
      </form>
    </Dialog>
  )
}
