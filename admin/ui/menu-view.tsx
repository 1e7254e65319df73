/** The view of `menu.tsx`. @zag-js/menu handles keys, focus and placing. */
import * as menu from '@zag-js/menu'
import { normalizeProps, useMachine } from '@zag-js/preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Icon, type IconName } from './icon.tsx'
import { Portal } from './portal.tsx'

export interface Action {
  id: string
  label: string
  icon: IconName
  danger?: boolean
  run(): void
}

export interface MenuProps {
  label: string
  actions: readonly Action[]
}

interface MenuViewProps extends MenuProps {
  /** Whether the button was pressed before this code was loaded. */
  opens: boolean
  /** Whether the button had the focus before this code was loaded. */
  focused: boolean
}

export function MenuView({ label, actions, opens, focused }: MenuViewProps) {
  const button = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => {
    if (focused) button.current?.focus()
  }, [])
  const service = useMachine(menu.machine, {
    id: useId(),
    'aria-label': label,
    defaultOpen: opens,
    positioning: { placement: 'bottom-end', strategy: 'fixed' },
    // Wait until the button has the focus again, so that a dialog of the action can restore it.
    onSelect: ({ value }) => setTimeout(() => actions.find(({ id }) => id === value)?.run()),
  })
  const parts = menu.connect(service, normalizeProps)
  return (
    <>
      <button {...parts.getTriggerProps()} ref={button} class="button plain icon-only" aria-label={label}>
        <Icon name="more" />
      </button>
      {parts.open && (
        // Inside of a dialog or a landmark, so that screen readers find it.
        <Portal into={button.current?.closest('[role=dialog]') ?? document.getElementById('main')}>
          <div {...parts.getPositionerProps()}>
            <ul {...parts.getContentProps()} class="menu">
              {actions.map(({ id, label: text, icon, danger }) => (
                <li key={id} {...parts.getItemProps({ value: id })} class={danger ? 'danger' : ''}>
                  <Icon name={icon} />
                  {text}
                </li>
              ))}
            </ul>
          </div>
        </Portal>
      )}
    </>
  )
}
