/**
 * What can be done with a message: a bar beside it while the pointer or the focus is there, and a menu after a
 * long press.
 */
import { type Signal, useSignal } from '@preact/signals'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import type { Message } from '../api.ts'
import { t } from '../i18n.ts'
import { answering } from '../rights.ts'
import { copy } from '../ui/copy.tsx'
import { IconButton } from '../ui/icon.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { set } from '../ui/set.ts'
import { tell } from '../ui/toasts.tsx'
import { textOf } from './message-summary.ts'
import type { Row } from './rows.ts'
import type { VirtualList } from './virtual.ts'

/** Row ids of messages that have their bar; 0 for none. */
export interface Bars {
  /** The pointer is on it. */
  over: Signal<number>
  /** Tab reaches it: one message of the chat. The arrow keys go on to others. */
  stop: Signal<number>
  /** Its menu was opened by a long press. Each press is a new object. */
  held: Signal<{ row: number }>
  /** The message whose dialog is open. */
  asked: Signal<{ message: Message; what: 'forward' | 'raw' } | undefined>
}

interface MessageBarProps {
  message: Message
  bars: Bars
  /** Sends a refused message again; undefined if that cannot be. */
  onAgain: ((message: Message, queue: boolean) => void) | undefined
}

export function MessageBar({ message, bars, onAgain }: MessageBarProps) {
  const { over, stop, held } = bars
  const isHeld = held.value.row === message.id
  if (!isHeld && over.value !== message.id && stop.value !== message.id) return null
  const actions = actionsOf(message, bars, onAgain)
  return (
    <div class="message-bar-place">
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields */}
      <div
        class="message-bar"
        role="group"
        aria-label={t('message.actions')}
        // The menu needs its button until it is closed.
        onClickCapture={set(stop, message.id)}
      >
        {actions
          .filter(({ id }) => id === 'copy' || id === 'forward')
          .map(({ id, label, icon, run }) => (
            <IconButton key={id} icon={icon} size={18} label={label} onClick={run} />
          ))}
        <Menu key={isHeld ? held.value : ''} label={t('message.more')} actions={actions} opens={isHeld} />
      </div>
    </div>
  )
}

/** The actions, the most usual ones first. */
function actionsOf(message: Message, { asked }: Bars, onAgain: MessageBarProps['onAgain']): Action[] {
  const text = textOf(message)
  const copied = (what: string) => async () => {
    if (await copy(what)) tell(t('action.copied'))
  }
  const all: (Action & { if?: boolean })[] = [
    { id: 'copy', label: t('message.copy'), icon: 'copy', run: copied(text), if: text !== '' },
    {
      id: 'forward',
      label: t('message.forward'),
      icon: 'forward',
      run: set(asked, { message, what: 'forward' }),
      if: answering() !== undefined,
    },
    {
      id: 'again',
      label: t('chat.again'),
      icon: 'renew',
      run: () => onAgain?.(message, false),
      if: onAgain !== undefined,
    },
    // A refused message has no id of WeChat.
    {
      id: 'id',
      label: t('message.copy_id'),
      icon: 'hash',
      run: copied(message.message_id || String(message.id)),
    },
    { id: 'raw', label: t('message.raw'), icon: 'file', run: set(asked, { message, what: 'raw' }) },
  ]
  return all.filter(one => one.if !== false)
}

/** A press is long after this time. A finger that scrolls cancels it. */
const longMs = 500

const rowIdOf = (target: EventTarget | null): number =>
  Number((target as Element).closest<HTMLElement>('[data-row]')?.dataset.row ?? 0)

/** Which messages have their bar, and the listeners of the log that find out. */
export function useBars(rows: readonly Row[], list: VirtualList) {
  const over = useSignal(0)
  const stop = useSignal(0)
  const held = useSignal({ row: 0 })
  const asked = useSignal<Bars['asked']['value']>(undefined)
  const bars: Bars = useMemo(() => ({ over, stop, held, asked }), [])
  const press = useLongPress(held)
  useLayoutEffect(() => {
    const { startIndex = 0, endIndex = -1 } = (!list.isScrolling && list.range) || {}
    const seen = rows.slice(startIndex, endIndex + 1).filter(({ key }) => key > 0)
    if (!seen.some(({ key }) => key === stop.peek())) stop.value = seen.at(-1)?.key ?? stop.peek()
  })
  // Before the button of the menu: Enter opens that, too.
  const onKeyDownCapture = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : 0
    if (step === 0 || !(event.target as Element).closest('.message-bar')) return
    event.preventDefault()
    event.stopPropagation()
    const at = rows.findIndex(({ key }) => key === stop.value) + step
    const row = rows[at]
    if (!row || row.key < 0) return
    stop.value = row.key
    list.scrollToIndex(at, { align: 'auto' })
    // Once it is drawn, and before the next key.
    queueMicrotask(() => focusBar(row.key, 5))
  }
  const listeners = {
    ...press,
    onKeyDownCapture,
    onFocusIn(event: FocusEvent) {
      stop.value = rowIdOf(event.target) || stop.value
    },
    onPointerOver(event: PointerEvent) {
      if (event.pointerType === 'mouse') over.value = rowIdOf(event.target)
    },
    onPointerLeave() {
      over.value = 0
    },
  }
  return { bars, listeners }
}

/** Listeners that set `held` after a long press of a finger. The press then does nothing else. */
function useLongPress(held: Bars['held']) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const wasLong = useRef(false)
  const release = () => clearTimeout(timer.current)
  return {
    onPointerDown({ pointerType, target }: PointerEvent) {
      release()
      wasLong.current = false
      const row = rowIdOf(target)
      if (pointerType === 'mouse' || row <= 0) return
      timer.current = setTimeout(() => {
        wasLong.current = true
        held.value = { row }
      }, longMs)
    },
    onPointerUp: release,
    onPointerCancel: release,
    // The browser's own menu after a long press.
    onContextMenu(event: MouseEvent) {
      if ((event as PointerEvent).pointerType === 'touch') event.preventDefault()
    },
    // A link or a picture below the finger does not open.
    onClickCapture(event: MouseEvent) {
      if (!wasLong.current) return
      wasLong.current = false
      event.preventDefault()
      event.stopPropagation()
    },
  }
}

/** Puts the focus on the bar of a row. One that was outside of the view must be drawn first. */
function focusBar(row: number, tries: number): void {
  const button = document.querySelector<HTMLElement>(`[data-row="${row}"] .message-bar button`)
  if (button) button.focus({ preventScroll: true })
  else if (tries > 0) requestAnimationFrame(() => focusBar(row, tries - 1))
}
