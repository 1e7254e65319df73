/** Chips that open a panel, and a list of many options with a field that finds one by typing. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren, RefObject } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { ChipCross } from './chips.tsx'
import { Icon } from './icon.tsx'

interface PickProps {
  label: string
  /** The names to choose from, by value. */
  options: ReadonlyMap<string, string>
  /** '' for all. */
  value: string
  /** The label of ''. */
  any: string
  onChange(value: string): void
}

/** The most options to render. Typing finds the others. */
const shownAtMost = 50

const folded = (text: string) => text.normalize('NFC').toLocaleLowerCase()

/** A chip with the list in its panel. */
export const PickChip = (props: PickProps) => (
  <ChipWithPanel
    label={props.label}
    value={props.options.get(props.value) ?? props.value}
    onClear={() => props.onChange('')}
  >
    {close => (
      <Pick
        {...props}
        onChange={value => {
          props.onChange(value)
          close()
        }}
      />
    )}
  </ChipWithPanel>
)

function Pick({ label, options, value, any, onChange }: PickProps) {
  const typed = useSignal('')
  const active = useSignal(0)
  const { all, more } = useFound(options, any, typed.value)
  const id = useId()
  const move = (step: number) => {
    active.value = (active.value + step + all.length) % Math.max(1, all.length)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    const chosen = all[active.value]
    if (event.key === 'ArrowDown') move(1)
    else if (event.key === 'ArrowUp') move(-1)
    else if (event.key === 'Enter' && chosen) onChange(chosen[0])
    else return
    event.preventDefault()
  }
  return (
    <div class="pick">
      <input
        class="input"
        role="combobox"
        autoComplete="off"
        aria-label={label}
        aria-autocomplete="list"
        aria-expanded={all.length > 0}
        aria-controls={id}
        aria-activedescendant={all.length > 0 ? `${id}-${active.value}` : undefined}
        dir="auto"
        placeholder={t('search.placeholder')}
        value={typed.value}
        onInput={event => {
          typed.value = event.currentTarget.value
          active.value = 0
        }}
        onKeyDown={onKeyDown}
      />
      <Options id={id} label={label} all={all} value={value} active={active.value} onChoose={onChange} />
      <p class="soft small" role="status">
        {all.length === 0 ? t('search.nothing') : more > 0 ? t('search.person_more', { count: more }) : ''}
      </p>
    </div>
  )
}

/** The options that fit what was typed, and how many more there are. */
function useFound(options: PickProps['options'], any: string, typed: string) {
  const needle = folded(typed.trim())
  const found = [...options].filter(
    ([one, name]) => folded(name).includes(needle) || folded(one).includes(needle),
  )
  const shown = found.slice(0, shownAtMost)
  const all: readonly (readonly [string, string])[] = needle === '' ? [['', any], ...shown] : shown
  return { all, more: found.length - shown.length }
}

interface OptionsProps {
  id: string
  label: string
  all: readonly (readonly [value: string, name: string])[]
  value: string
  /** The index of the one that Enter chooses. */
  active: number
  onChoose(value: string): void
}

function Options({ id, label, all, value, active, onChoose }: OptionsProps) {
  const list = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: 'nearest' })
  }, [active])
  return (
    <div
      ref={list}
      id={id}
      role="listbox"
      aria-label={label}
      hidden={all.length === 0}
      // Keep the focus in the field.
      onMouseDown={event => event.preventDefault()}
      tabIndex={-1}
    >
      {all.map(([one, name], nth) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/useFocusableInteractive: keys are the field's
        <div
          key={one}
          id={`${id}-${nth}`}
          role="option"
          aria-selected={one === value}
          data-highlighted={nth === active ? '' : undefined}
          class="cut"
          title={one}
          onClick={() => onChoose(one)}
        >
          <bdi>{name}</bdi>
        </div>
      ))}
    </div>
  )
}

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
