/** Text to paste elsewhere, with a button that copies it. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { t } from '../i18n.ts'
import { IconButton } from './icon.tsx'
import { Middle } from './marks.tsx'
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

interface CopyProps {
  text: string
  /** Names the text for screen readers. */
  what: string
  /** The dialog around it puts the focus there. */
  first?: boolean
}

/** A text in a box, and its copy button. `short`: in one line, cut in the middle. */
export const Copyable = ({ short = false, ...props }: CopyProps & { short?: boolean }) => (
  <div class="copyable">
    <code class="foreign" dir="ltr">
      {short ? <Middle text={props.text} /> : props.text}
    </code>
    <CopyButton {...props} />
  </div>
)

export function CopyButton({ text, what, first = false }: CopyProps) {
  const copied = useSignal(false)
  useEffect(() => {
    if (!copied.value) return
    const timer = setTimeout(set(copied, false), 2000)
    return () => clearTimeout(timer)
  }, [copied.value])
  return (
    <>
      <IconButton
        icon={copied.value ? 'check' : 'copy'}
        label={t('action.copy_what', { what })}
        title={t('action.copy')}
        {...(first && { 'data-autofocus': true })}
        onClick={async () => {
          copied.value = await copy(text)
        }}
      />
      <span class="visually-hidden" role="status">
        {copied.value ? t('action.copied') : ''}
      </span>
    </>
  )
}
