/** Shows the dialog of `dialog.tsx`. Focus, Escape, scrolling behind it and the reading order are @zag-js/dialog's work. */
import * as dialog from '@zag-js/dialog'
import { normalizeProps, useMachine } from '@zag-js/preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'
import { Portal } from './portal.tsx'

export interface DialogProps {
  title: string
  /** Said after the title by a screen reader. */
  description?: string
  onClose(): void
  /** Where the focus goes after it, if what opened it is gone; else to the beginning of the page. */
  focusAfter?(): HTMLElement | undefined
  /** For questions that must be answered: no closing by a click beside it. */
  alert?: boolean
  /** As large as the window, and dark: for pictures. Its title is said again when it changes. */
  large?: boolean
  /** Buttons of a large one, beside its title. */
  tools?: ComponentChildren
  children?: ComponentChildren
  footer?: ComponentChildren
}

/** Where the person was before the dialog, or before the first of those that follow each other. */
let opener: Element | undefined

export function DialogView(props: DialogProps) {
  const { title, description, onClose, alert, large, tools, children, footer } = props
  useState(noteOpener)
  const last = useRef(props)
  last.current = props
  const content = useRef<HTMLDivElement>(null)
  // Whoever stops rendering it leaves it no time to give the focus back by itself.
  useEffect(() => () => focusAgain(last.current.focusAfter), [])
  const service = useMachine(dialog.machine, {
    id: useId(),
    open: true,
    role: alert ? 'alertdialog' : 'dialog',
    closeOnInteractOutside: !alert,
    // Else a question would begin at its cross.
    ...(alert && {
      initialFocusEl: () => content.current?.querySelector<HTMLElement>('[data-autofocus]') ?? null,
    }),
    // Its keys act on what it shows, not on the first of its buttons.
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

/** Where the person was before; where that is gone, at what took its place, or at the beginning of the page. */
function focusAgain(focusAfter: DialogProps['focusAfter']): void {
  setTimeout(() => {
    // Another one follows.
    if (document.querySelector('.dialog, .lightbox')) return
    const before = opener
    opener = undefined
    if (document.activeElement && document.activeElement !== document.body) return
    const there = before instanceof HTMLElement && before.isConnected
    ;(there ? before : (focusAfter?.() ?? document.getElementById('main')))?.focus()
  })
}
