/** A select field with its label. */
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

interface ChoiceProps {
  label: string
  /** Its name in a form. */
  name?: string
  value?: string
  /** Half as wide, so that two fit on one line. */
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
        id={id}
        name={name}
        value={value}
        onChange={event => onChange?.(event.currentTarget.value)}
      >
        {children}
      </select>
    </div>
  )
}
