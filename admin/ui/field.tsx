/** A text field with its label, and a sentence below it. */
import type { ComponentChildren, ComponentProps } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  label: string
  about?: string
  input: ComponentProps<'input'>
  /** What the field refers to. */
  children?: ComponentChildren
}

export function Field({ label, about, input, children }: FieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        class="input"
        id={id}
        autocomplete="off"
        dir="auto"
        aria-describedby={about && `${id}-about`}
        {...input}
      />
      {children}
      {about && (
        <p class="soft small" id={`${id}-about`}>
          {about}
        </p>
      )}
    </div>
  )
}
