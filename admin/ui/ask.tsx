/** A dialog with a question: for a confirmation, or for text in fields. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useCallback, useId, useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Dialog } from './dialog.tsx'
import type { DialogProps } from './dialog-view.tsx'
import { Icon } from './icon.tsx'
import { tellError } from './toasts.tsx'
import { useWork } from './work.ts'

interface AskProps extends Omit<DialogProps, 'footer'> {
  /** The text of the button that confirms. */
  action: string
  danger?: boolean
  /** Runs the action with the content of the fields, and closes the dialog. */
  run(typed: FormData): Promise<unknown>
  /** Gets the error of `run`. Without it the error is shown as a toast, and an alert dialog closes. */
  onError?(error: unknown): void
}

/** Everything in the fields, as one text. */
const contentOf = (form: HTMLFormElement): string => JSON.stringify([...new FormData(form)])

export function Ask({ action, danger, run, onError, children, ...dialog }: AskProps) {
  const { alert, onClose } = dialog
  const form = useId()
  const fields = useRef<HTMLFormElement | null>(null)
  const before = useRef('')
  const begin = useCallback((form: HTMLFormElement | null) => {
    fields.current = form
    if (form) before.current = contentOf(form)
  }, [])
  const isTyped = () => !busy.value && fields.current !== null && contentOf(fields.current) !== before.current
  const over = (error: unknown) => {
    tellError(error)
    if (alert) onClose()
  }
  const { busy, work } = useWork(onError ?? over)
  return (
    <Dialog
      {...dialog}
      {...(!alert && { loses: () => (isTyped() ? t('ask.typed') : '') })}
      footer={
        <>
          <button class="button" type="button" onClick={onClose} {...(alert && { 'data-autofocus': true })}>
            {t('action.cancel')}
          </button>
          <button
            class={`button ${danger ? 'danger' : 'primary'}`}
            type="submit"
            form={form}
            aria-disabled={busy.value}
          >
            {action}
          </button>
        </>
      }
    >
      <form
        class="asked-for"
        id={form}
        ref={begin}
        noValidate
        onSubmit={event => {
          event.preventDefault()
          const typed = new FormData(event.currentTarget)
          void work(() => run(typed))
        }}
      >
        {children}
      </form>
    </Dialog>
  )
}

const signs = { lost: 'warn', kept: 'check', waits: 'clock', remark: 'file', warning: 'warn' } as const

/** What an action loses or keeps, and what else there is to know: an item of a list of the class `consequences`. */
export const Consequence = ({
  kind,
  children,
}: {
  kind: keyof typeof signs
  children: ComponentChildren
}) => (
  <li class={kind}>
    <Icon name={signs[kind]} />
    <span>{children}</span>
  </li>
)

/** The open dialog of a page, and what it is about. */
export function useAsked<T>() {
  const asked = useSignal<T | undefined>(undefined)
  const question = asked.value
  return {
    question,
    ask: (next: T) => {
      asked.value = next
    },
    // A dialog that ends late must not close a newer one: a key or secret is shown only once.
    close: () => {
      if (asked.peek() === question) asked.value = undefined
    },
  }
}
