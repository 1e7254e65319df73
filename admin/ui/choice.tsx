/** A list of which one is chosen, with its label. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface ChoiceProps {
  label: string
  /** In a form. */
  name?: string
  value?: string
  /** Beside another one, where there is room. */
  half?: boolean
  onChange?(value: string): void
  children: ComponentChildren
}

export function Choice({ label, name, value, half, onChange, children }: ChoiceProps) {
  const id = useId()
  return (
    <div class={half ? 'field half' : 'field'}>
      <label for={id}>{label}</label>
      <select
        class="input"
        {...{ id, name, value }}
        onChange={event => onChange?.(event.currentTarget.value)}
      >
        {children}
      </select>
    </div>
  )
}
