/** A text field with its label, and a sentence below it. */
import type { ComponentChildren, ComponentProps } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  label: string
  about?: string
  input: ComponentProps<'input'>
  /** Height of a field for several lines. */
  rows?: number
  /** What the field refers to. */
  children?: ComponentChildren
}

export function Field({ label, about, input, rows, children }: FieldProps) {
  const id = useId()
  // The attributes in use are those that both have.
  const Box = (rows === undefined ? 'input' : 'textarea') as 'input'
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <Box
        class="input"
        id={id}
        {...(rows !== undefined && { rows })}
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
