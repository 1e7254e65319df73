/** Shows the dialog of `dialog.tsx`. Focus, Escape, scrolling behind it and the reading order are @zag-js/dialog's work. */
import * as dialog from '@zag-js/dialog'
import { normalizeProps, useMachine } from '@zag-js/preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import type { DialogProps } from './dialog.tsx'
import { Icon } from './icon.tsx'
import { Portal } from './portal.tsx'

export function DialogView({ title, description, onClose, alert, children, footer }: DialogProps) {
  const opener = useRef(document.activeElement)
  const content = useRef<HTMLDivElement>(null)
  // Whoever stops rendering it leaves it no time to give the focus back by itself.
  useEffect(() => () => focusAgain(opener.current), [])
  const service = useMachine(dialog.machine, {
    id: useId(),
    open: true,
    role: alert ? 'alertdialog' : 'dialog',
    closeOnInteractOutside: !alert,
    // Else a question would begin at its cross.
    ...(alert && {
      initialFocusEl: () => content.current?.querySelector<HTMLElement>('[data-autofocus]') ?? null,
    }),
    onOpenChange: ({ open }) => {
      if (!open) onClose()
    },
  })
  const parts = dialog.connect(service, normalizeProps)
  return (
    <Portal>
      <div {...parts.getBackdropProps()} class="backdrop" />
      <div {...parts.getPositionerProps()} class="dialog-place">
        <div {...parts.getContentProps()} class="dialog" ref={content}>
          <header>
            <h2 {...parts.getTitleProps()}>{title}</h2>
            <button
              {...parts.getCloseTriggerProps()}
              class="button plain icon-only"
              aria-label={t('action.close')}
            >
              <Icon name="close" />
            </button>
          </header>
          {description !== undefined && (
            <p {...parts.getDescriptionProps()} class="soft">
              {description}
            </p>
          )}
          {children}
          {footer && <footer>{footer}</footer>}
        </div>
      </div>
    </Portal>
  )
}

/** Where the person was before; at the beginning of the page where that is gone. */
function focusAgain(opener: Element | null): void {
  setTimeout(() => {
    if (document.activeElement && document.activeElement !== document.body) return
    const there = opener instanceof HTMLElement && opener.isConnected && opener !== document.body
    ;(there ? opener : document.getElementById('main'))?.focus()
  })
}
