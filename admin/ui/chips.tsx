/** Filters as chips. One that is set is filled, and has a cross. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren, RefObject } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'

interface ChipProps {
  label: string
  /** Once it is set, it shows the value alone. */
  short?: boolean
  /** The names to choose from, by value. */
  options: Iterable<readonly [value: string, name: string]>
  /** '' if it is not set. */
  value: string
  /** The name of ''. */
  any: string
  onChange(value: string): void
}

export function Chip({ label, short, options, value, any, onChange }: ChipProps) {
  const all = [...options]
  const name = all.find(([one]) => one === value)?.[1] ?? value
  return (
    <span class="chip" data-set={value === '' ? undefined : ''}>
      <span class="cut" aria-hidden="true">
        {value === '' ? label : short ? name : t('filter.set', { label, value: name })}
      </span>
      {value === '' && <Icon name="chevron" size={14} />}
      <select aria-label={label} value={value} onChange={event => onChange(event.currentTarget.value)}>
        <option value="">{any}</option>
        {all.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
      {value !== '' && <ChipCross label={label} onClear={() => onChange('')} />}
    </span>
  )
}

/** The cross of a chip that is set. */
const ChipCross = ({ label, onClear }: { label: string; onClear(): void }) => (
  <button type="button" aria-label={t('filter.clear', { label })} onClick={onClear}>
    <Icon name="close" size={14} />
  </button>
)

interface ChipButtonProps {
  inner: RefObject<HTMLButtonElement | null>
  label: string
  /** The name of the chosen value; '' if there is none. */
  value: string
  /** The id of the panel with the choices, and whether it is open. */
  panel: string
  isOpen: boolean
  onOpen(): void
  onClear(): void
}

const ChipButton = ({ inner, label, value, panel, isOpen, onOpen, onClear }: ChipButtonProps) => (
  <span class="chip" data-set={value === '' ? undefined : ''}>
    <button
      ref={inner}
      type="button"
      class="chip-open"
      aria-label={value === '' ? label : t('filter.set', { label, value })}
      aria-expanded={isOpen}
      aria-controls={panel}
      // The focus stays in the panel: it closes without it.
      onMouseDown={event => event.preventDefault()}
      onClick={onOpen}
    >
      <span class="cut">{value || label}</span>
      {value === '' && <Icon name="chevron" size={14} />}
    </button>
    {value !== '' && <ChipCross label={label} onClear={onClear} />}
  </span>
)

interface ChipWithPanelProps {
  label: string
  value: string
  onClear(): void
  children(close: () => void): ComponentChildren
}

/** A chip whose choices need more than a list. They are in a panel below the chips, until the focus leaves it. */
export function ChipWithPanel({ label, value, onClear, children }: ChipWithPanelProps) {
  const id = useId()
  const open = useSignal(false)
  const chip = useRef<HTMLButtonElement>(null)
  const panel = useRef<HTMLFieldSetElement>(null)
  useLayoutEffect(() => {
    panel.current?.querySelector<HTMLElement>('input, button')?.focus()
  }, [open.value])
  const close = () => {
    open.value = false
    chip.current?.focus()
  }
  return (
    <>
      <ChipButton
        inner={chip}
        label={label}
        value={value}
        isOpen={open.value}
        panel={id}
        onOpen={() => {
          if (open.value) close()
          else open.value = true
        }}
        onClear={onClear}
      />
      {open.value && (
        <fieldset
          id={id}
          ref={panel}
          class="chip-panel"
          aria-label={label}
          tabIndex={-1}
          onKeyDown={event => {
            if (event.key === 'Escape') close()
          }}
          onFocusOut={event => {
            if (!event.currentTarget.contains(event.relatedTarget as Node | null)) open.value = false
          }}
        >
          {children(close)}
        </fieldset>
      )}
    </>
  )
}
