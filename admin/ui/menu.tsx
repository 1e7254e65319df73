/** A button that opens a menu of actions. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { Icon, type IconName } from './icon.tsx'
import { layers, loadLayers } from './layers.ts'

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

export function Menu(props: MenuProps) {
  const pressed = useSignal(false)
  const button = useRef<HTMLButtonElement>(null)
  const View = layers.value?.MenuView
  if (View) {
    const hasFocus = button.current !== null && button.current === document.activeElement
    return <View {...props} opens={pressed.value} focused={hasFocus} />
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
        pressed.value = true
        void loadLayers()
      }}
    >
      <Icon name="more" />
    </button>
  )
}
