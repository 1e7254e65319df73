/** A combobox: a field to find one of many options by typing. */
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
  const field = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLDivElement>(null)
  /** The typed text; undefined before anything is typed. */
  const typed = useSignal<string | undefined>(undefined)
  const open = useSignal(false)
  const active = useSignal(-1)
  const nameOf = (one: string) => (one === '' ? any : (options.get(one) ?? one))
  const needle = folded((typed.value ?? '').trim())
  const fits = ([one, name]: [string, string]) =>
    folded(name).includes(needle) || folded(one).includes(needle)
  const found = open.value ? [...options].filter(fits) : []
  const values = [...(needle === '' ? [''] : []), ...found.slice(0, shownAtMost).map(([one]) => one)]
  const more = found.length - shownAtMost
  const close = () => {
    open.value = false
    typed.value = undefined
    active.value = -1
  }
  const choose = (one: string | undefined) => {
    close()
    if (one !== undefined && one !== value) onChange(one)
  }
  const move = (step: number) => {
    if (!open.value) {
      open.value = true
      active.value = 0
    } else active.value = (active.value + step + values.length) % Math.max(1, values.length)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === 'ArrowDown') move(1)
    else if (event.key === 'ArrowUp') move(-1)
    else if (event.key === 'Enter' && open.value) choose(values[active.value])
    else if (event.key === 'Escape' && open.value) close()
    else return
    event.preventDefault()
  }
  useLayoutEffect(() => {
    list.current?.children[active.value]?.scrollIntoView({ block: 'nearest' })
  }, [active.value])
  useLayoutEffect(() => {
    // Select the text, so that typing replaces it.
    if (typed.value === undefined && document.activeElement === field.current) field.current?.select()
  }, [typed.value, value])
  const isNobody = open.value && values.length === 0
  return (
    <div class="field pick">
      <label for={id}>{label}</label>
      <input
        class="input"
        id={id}
        ref={field}
        role="combobox"
        autoComplete="off"
        aria-autocomplete="list"
        aria-expanded={open.value && !isNobody}
        aria-controls={`${id}-list`}
        aria-activedescendant={open.value && active.value >= 0 ? `${id}-${active.value}` : undefined}
        dir="auto"
        value={typed.value ?? nameOf(value)}
        onFocus={event => event.currentTarget.select()}
        onClick={() => {
          open.value = true
        }}
        onInput={event => {
          typed.value = event.currentTarget.value
          open.value = true
          active.value = 0
        }}
        onKeyDown={onKeyDown}
        onBlur={close}
      />
      <div
        ref={list}
        id={`${id}-list`}
        role="listbox"
        aria-label={label}
        hidden={!open.value || isNobody}
        // Keep the focus in the field.
        onMouseDown={event => event.preventDefault()}
        tabIndex={-1}
      >
        {values.map((one, nth) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/useFocusableInteractive: keys are the field's
          <div
            key={one}
            id={`${id}-${nth}`}
            role="option"
            aria-selected={one === value}
            data-highlighted={nth === active.value ? '' : undefined}
            class="cut"
            title={one}
            onClick={() => choose(one)}
          >
            <bdi>{nameOf(one)}</bdi>
          </div>
        ))}
      </div>
      <p class="soft small" role="status">
        {isNobody
          ? t('search.person_none')
          : open.value && more > 0
            ? t('search.person_more', { count: more })
            : ''}
      </p>
    </div>
  )
}
