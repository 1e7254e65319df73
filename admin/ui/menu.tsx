/** A button that opens a menu of actions. */
import { useEffect, useRef } from 'preact/hooks'
import { Icon } from './icon.tsx'
import { layers, loadLayers } from './layers.ts'
import type { MenuProps } from './menu-view.tsx'

export type { Action } from './menu-view.tsx'

interface Props extends MenuProps {
  /** Whether it is open at once. */
  opens?: boolean
}

export function Menu({ opens = false, ...props }: Props) {
  /**
   * The focus at the time of the press. If the person has moved on before the code is loaded, the menu stays
   * closed.
   */
  const pressed = useRef<Element | null>(null)
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (opens) void loadLayers()
  }, [])
  const View = layers.value?.MenuView
  if (View) {
    const focus = document.activeElement
    const hasFocus = button.current !== null && button.current === focus
    // A button that is held down while it is replaced gets no click.
    const isHeld = button.current?.matches(':active') === true
    const wasPressed = isHeld || (pressed.current !== null && pressed.current === focus)
    return <View {...props} opens={opens || wasPressed} focused={hasFocus} />
  }
  return (
    <button
      ref={button}
      type="button"
      class="button plain icon-only"
      aria-label={props.label}
      aria-haspopup="menu"
      aria-expanded={false}
      onClick={() => {
        pressed.current = document.activeElement
        void loadLayers()
      }}
    >
      <Icon name="more" />
    </button>
  )
}
