/** A field with its label, and below it a sentence and what is wrong. */
import type { ComponentChildren, ComponentProps } from 'preact'
import { useId } from 'preact/hooks'

interface FieldProps {
  label: string
  about?: string
  /** What is wrong with it; '' if nothing is. Absent if nothing can be. */
  problem?: string
  input: ComponentProps<'input'> & { 'data-autofocus'?: boolean }
  /** Height of a field for several lines. */
  rows?: number
  /** What the field refers to. */
  children?: ComponentChildren
}

export function Field({ label, about, problem, input, rows, children }: FieldProps) {
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
        aria-describedby={[about && `${id}-about`, problem !== undefined && `${id}-problem`]
          .filter(Boolean)
          .join(' ')}
        aria-invalid={Boolean(problem)}
        {...input}
      />
      {children}
      {about && (
        <p class="soft small" id={`${id}-about`}>
          {about}
        </p>
      )}
      {problem !== undefined && (
        <p class="problem" id={`${id}-problem`} role="alert">
          {problem}
        </p>
      )}
    </div>
  )
}
