/**
 * The view of `dialog.tsx`. @zag-js/dialog handles focus, Escape, scrolling of the page behind and reading
 * order.
 */
import * as dialog from '@zag-js/dialog'
import { normalizeProps, useMachine } from '@zag-js/preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'
import { Portal } from './portal.tsx'

export interface DialogProps {
  title: string
  /** A screen reader reads it after the title. */
  description?: string
  onClose(): void
  /** The element that gets the focus afterwards if the opener is gone. Without it: the start of the page. */
  focusAfter?(): HTMLElement | undefined
  /** For questions that must be answered: a click beside it does not close it. */
  alert?: boolean
  /**
   * As large as the window, and dark: for pictures. A screen reader reads its title again when it changes.
   */
  large?: boolean
  /** Buttons beside the title of a large dialog. */
  tools?: ComponentChildren
  children?: ComponentChildren
  footer?: ComponentChildren
}

/** The element that had the focus before the dialog, or before the first of several dialogs in a row. */
let opener: Element | undefined

export function DialogView(props: DialogProps) {
  const { title, description, onClose, alert, large, tools, children, footer } = props
  useState(noteOpener)
  const last = useRef(props)
  last.current = props
  const content = useRef<HTMLDivElement>(null)
  // When the caller stops rendering it, @zag-js/dialog has no time to restore the focus.
  useEffect(() => () => focusAgain(last.current.focusAfter), [])
  const service = useMachine(dialog.machine, {
    id: useId(),
    open: true,
    role: alert ? 'alertdialog' : 'dialog',
    closeOnInteractOutside: !alert,
    // Without this the focus would start at the close button.
    ...(alert && {
      initialFocusEl: () => content.current?.querySelector<HTMLElement>('[data-autofocus]') ?? null,
    }),
    // Its keys act on the content, not on its first button.
    ...(large && { initialFocusEl: () => content.current }),
    onOpenChange: ({ open }) => {
      if (!open) onClose()
    },
  })
  const parts = dialog.connect(service, normalizeProps)
  const about = description !== undefined && (
    <p {...parts.getDescriptionProps()} class="soft">
      {description}
    </p>
  )
  return (
    <Portal>
      <div {...parts.getBackdropProps()} class={large ? 'backdrop dark' : 'backdrop'} />
      <div {...parts.getPositionerProps()} class={large ? 'large-place' : 'dialog-place'}>
        <div {...parts.getContentProps()} class={large ? 'lightbox' : 'dialog'} ref={content}>
          <header>
            {large ? (
              <div class="grow" aria-live="polite">
                <h2 {...parts.getTitleProps()}>{title}</h2>
                {about}
              </div>
            ) : (
              <h2 {...parts.getTitleProps()}>{title}</h2>
            )}
            {tools}
            <button
              {...parts.getCloseTriggerProps()}
              class="button plain icon-only"
              aria-label={t('action.close')}
            >
              <Icon name="close" />
            </button>
          </header>
          {!large && about}
          {children}
          {footer && <footer>{footer}</footer>}
        </div>
      </div>
    </Portal>
  )
}

function noteOpener(): void {
  const at = document.activeElement
  if (at && at !== document.body && !at.closest('.dialog, .lightbox')) opener = at
}

/** Restores the focus: to the opener, else to `focusAfter`, else to the start of the page. */
function focusAgain(focusAfter: DialogProps['focusAfter']): void {
  setTimeout(() => {
    // Another dialog follows.
    if (document.querySelector('.dialog, .lightbox')) return
    const before = opener
    opener = undefined
    if (document.activeElement && document.activeElement !== document.body) return
    const there = before instanceof HTMLElement && before.isConnected
    ;(there ? before : (focusAfter?.() ?? document.getElementById('main')))?.focus()
  })
}
