/**
 * The view of `dialog.tsx`. @zag-js/dialog handles focus, Escape, scrolling of the page behind and reading
 * order.
 */
import * as dialog from '@zag-js/dialog'
import { normalizeProps, useMachine } from '@zag-js/preact'
import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
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
   * What would be lost if it closed now; '' for nothing. Escape, the cross, a click beside it and the browser's
   * back button then ask first.
   */
  loses?(): string
  /**
   * As large as the window, and dark: for pictures. A screen reader reads its title again when it changes.
   */
  large?: boolean
  /** At the right edge, as high as the window: for the detail of a row. */
  side?: boolean
  /** Buttons beside the title of a large dialog. */
  tools?: ComponentChildren
  children?: ComponentChildren
  footer?: ComponentChildren
}

/** Where the focus begins: at a field, else at a button of the footer, else in the dialog. Not at its cross. */
const firstOf = (content: HTMLElement | null): HTMLElement | null =>
  ['[data-autofocus]', 'input, select, textarea', 'footer .primary']
    .flatMap(selector => [...(content?.querySelectorAll<HTMLElement>(selector) ?? [])])
    .find(one => one.checkVisibility()) ?? content

/**
 * The element that had the focus before the side sheet, and the one before the dialog, or before the first of
 * several dialogs in a row. A dialog can be above a sheet.
 */
const openers: Partial<Record<'side-sheet' | 'dialog', Element | undefined>> = {}

export function DialogView(props: DialogProps) {
  const { title, description, onClose, large, side, tools, children, footer } = props
  const kind = side ? 'side-sheet' : 'dialog'
  const content = useRef<HTMLDivElement>(null)
  const { parts, lost, stay } = useDialog(props, kind, content)
  const about = description !== undefined && (
    <p {...parts.getDescriptionProps()} class="soft">
      {description}
    </p>
  )
  return (
    <Portal>
      <div {...parts.getBackdropProps()} class={large ? 'backdrop dark' : 'backdrop'} />
      <div {...parts.getPositionerProps()} class={`${large ? 'large' : kind}-place`}>
        <div {...parts.getContentProps()} class={large ? 'lightbox' : kind} ref={content}>
          <header>
            {large || side ? (
              <div class="grow" {...(large && { 'aria-live': 'polite' })}>
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
          {!large && !side && about}
          {side ? <div class="side-sheet-body">{children}</div> : children}
          {lost === '' ? (
            footer && <footer>{footer}</footer>
          ) : (
            <Lost what={lost} onStay={stay} onLeave={onClose} />
          )}
        </div>
      </div>
    </Portal>
  )
}

/** The dialog's machine, and what would be lost while the dialog asks about it. */
function useDialog(props: DialogProps, kind: Kind, content: RefObject<HTMLDivElement | null>) {
  const { onClose, alert, large, loses } = props
  useState(() => noteOpener(kind))
  // The keys of a large dialog act on the content, not on its first button.
  const first = () => (large ? content.current : firstOf(content.current))
  const last = useRef(props)
  last.current = props
  // When the caller stops rendering it, @zag-js/dialog has no time to restore the focus.
  useEffect(() => () => focusAgain(kind, last.current.focusAfter), [])
  const [lost, setLost] = useState('')
  const ask = () => {
    const what = last.current.loses?.() ?? ''
    setLost(what)
    return what !== ''
  }
  useHeld(ask, loses !== undefined)
  const service = useMachine(dialog.machine, {
    id: useId(),
    open: true,
    role: alert ? 'alertdialog' : 'dialog',
    closeOnInteractOutside: !alert,
    initialFocusEl: first,
    onOpenChange: ({ open }) => {
      if (!open && !ask()) onClose()
    },
  })
  const parts = dialog.connect(service, normalizeProps)
  // @zag-js/dialog takes the focus and hears Escape only after a drawing. A key may come before: it is the dialog's.
  useLayoutEffect(() => {
    first()?.focus({ preventScroll: true })
    content.current?.addEventListener('keydown', event => {
      if (event.key === 'Escape' && !event.defaultPrevented) parts.setOpen(false)
    })
  }, [])
  return { parts, lost, stay: () => setLost('') }
}

/** Calls `ask` before the browser leaves the page or goes back. If that is true, it stays. */
function useHeld(ask: () => boolean, isOn: boolean): void {
  useEffect(() => {
    if (!isOn) return
    const hold = (event: Event) => {
      const leaves = event.type === 'beforeunload' || (event as NavigateEvent).navigationType === 'traverse'
      if (leaves && event.cancelable && ask()) event.preventDefault()
    }
    const sources = [window, ...('navigation' in window ? [window.navigation] : [])]
    for (const source of sources)
      for (const type of ['beforeunload', 'navigate']) source.addEventListener(type, hold)
    return () => {
      for (const source of sources)
        for (const type of ['beforeunload', 'navigate']) source.removeEventListener(type, hold)
    }
  }, [])
}

/** The question before something is lost. The focus is on the button that keeps it. */
function Lost({ what, onStay, onLeave }: { what: string; onStay(): void; onLeave(): void }) {
  const stay = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => {
    const before = document.activeElement
    stay.current?.focus()
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    <footer class="lost">
      <p role="alert">{what}</p>
      <button class="button" type="button" onClick={onLeave}>
        {t('ask.leave')}
      </button>
      <button class="button primary" type="button" ref={stay} onClick={onStay}>
        {t('ask.stay')}
      </button>
    </footer>
  )
}

type Kind = keyof typeof openers
const above: Readonly<Record<Kind, string>> = {
  'side-sheet': '.side-sheet, .dialog, .lightbox',
  dialog: '.dialog, .lightbox',
}

/** The element with the focus. None if it is only at the start of the page, where it goes if an opener is gone. */
function focused(): Element | undefined {
  const at = document.activeElement
  return at && at !== document.body && at.id !== 'main' ? at : undefined
}

function noteOpener(kind: Kind): void {
  const at = focused()
  if (at && !at.closest(above[kind])) openers[kind] = at
}

/** Restores the focus: to the opener, else to `focusAfter`, else to the sheet below, else to the start of the page. */
function focusAgain(kind: Kind, focusAfter: DialogProps['focusAfter']): void {
  setTimeout(() => {
    // Another one follows.
    if (document.querySelector(above[kind])) return
    const before = openers[kind]
    openers[kind] = undefined
    if (focused()) return
    const there = before instanceof HTMLElement && before.isConnected
    const below = document.querySelector<HTMLElement>('.side-sheet') ?? document.getElementById('main')
    ;(there ? before : (focusAfter?.() ?? below))?.focus()
  })
}
