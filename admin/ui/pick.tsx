/** A list of many options, with a field that finds one by typing. */
import { useSignal } from '@preact/signals'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { t } from '../i18n.ts'

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

export function Pick({ label, options, value, any, onChange }: PickProps) {
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const typed = useSignal('')
  const active = useSignal(0)
  const needle = folded(typed.value.trim())
  const found = [...options].filter(
    ([one, name]) => folded(name).includes(needle) || folded(one).includes(needle),
  )
  const shown = found.slice(0, shownAtMost)
  const all: readonly (readonly [string, string])[] = needle === '' ? [['', any], ...shown] : shown
  const more = found.length - shown.length
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
  useLayoutEffect(() => {
    list.current?.children[active.value]?.scrollIntoView({ block: 'nearest' })
  }, [active.value])
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
            data-highlighted={nth === active.value ? '' : undefined}
            class="cut"
            title={one}
            onClick={() => onChange(one)}
          >
            <bdi>{name}</bdi>
          </div>
        ))}
      </div>
      <p class="soft small" role="status">
        {all.length === 0
          ? t('search.person_none')
          : more > 0
            ? t('search.person_more', { count: more })
            : ''}
      </p>
    </div>
  )
}
