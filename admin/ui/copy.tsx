/** Text to paste elsewhere, with a button that copies it. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'
import { set } from './set.ts'

/** Copies to the clipboard. Also works on pages without TLS, where browsers offer no clipboard interface. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const field = document.createElement('textarea')
    field.value = text
    field.className = 'visually-hidden'
    const focused = document.activeElement
    document.body.append(field)
    field.select()
    const done = document.execCommand('copy')
    field.remove()
    if (focused instanceof HTMLElement) focused.focus()
    return done
  }
}

/**
 * A text in a scrolling box, and its copy button. `what` names it for screen readers. With `first`, the
 * dialog around it puts the focus there.
 */
export function Copyable({ text, what, first = false }: { text: string; what: string; first?: boolean }) {
  const copied = useSignal(false)
  useEffect(() => {
    if (!copied.value) return
    const timer = setTimeout(set(copied, false), 2000)
    return () => clearTimeout(timer)
  }, [copied.value])
  return (
    <div class="copyable">
      <code class="foreign" dir="ltr">
        {text}
      </code>
      <button
        type="button"
        class="button plain icon-only"
        aria-label={t('action.copy_what', { what })}
        title={t('action.copy')}
        {...(first && { 'data-autofocus': true })}
        onClick={async () => {
          copied.value = await copy(text)
        }}
      >
        <Icon name={copied.value ? 'check' : 'copy'} />
      </button>
      <span class="visually-hidden" role="status">
        {copied.value ? t('action.copied') : ''}
      </span>
    </div>
  )
}
