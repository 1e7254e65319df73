/** The filters of the search, as chips in one line: account, person, kind, days. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { type TextKey, t } from '../i18n.ts'
import { conversations, nameOf, sessions } from '../live.ts'
import type { Filter } from '../place.ts'
import { dateOf, day, dayFrom, now } from '../times.ts'
import { Chip, ChipButton } from '../ui/chips.tsx'
import { Field } from '../ui/field.tsx'
import { Pick } from '../ui/pick.tsx'

const kinds: readonly [string, TextKey][] = [
  ['TEXT', 'search.kind_text'],
  ['IMAGE', 'chat.picture'],
  ['VIDEO', 'chat.video'],
  ['VOICE', 'chat.voice'],
  ['FILE', 'chat.file'],
]

interface FiltersProps {
  filter: Filter
  onChange(filter: Filter): void
}

export function Filters({ filter, onChange }: FiltersProps) {
  const set = (changes: Filter) => {
    const wanted = Object.entries({ ...filter, ...changes }).filter(([, value]) => value !== '')
    onChange(Object.fromEntries(wanted))
  }
  const { account = '', person = '', kind = '' } = filter
  const accounts = (sessions.value ?? []).map(({ name }) => name)
  // A logged-out account still has its messages.
  if (account !== '' && !accounts.includes(account)) accounts.push(account)
  const people = new Map(
    (conversations.value ?? [])
      .filter(({ session }) => account === '' || session === account)
      .map(({ session, user_id }) => [user_id, nameOf(session, user_id) ?? user_id]),
  )
  if (person !== '' && !people.has(person)) people.set(person, person)
  return (
    <div class="search-chips">
      {(accounts.length > 1 || account !== '') && (
        <Chip
          short
          label={t('search.account')}
          options={accounts.map(name => [name, name] as const)}
          value={account}
          any={t('search.account_any')}
          onChange={value => set({ account: value })}
        />
      )}
      <ChipWithPanel
        label={t('search.person')}
        value={people.get(person) ?? ''}
        onClear={() => set({ person: '' })}
      >
        {close => (
          <Pick
            label={t('search.person')}
            options={people}
            value={person}
            any={t('search.person_any')}
            onChange={value => {
              set({ person: value })
              close()
            }}
          />
        )}
      </ChipWithPanel>
      <Chip
        short
        label={t('search.kind')}
        options={kinds.map(([value, text]) => [value, t(text)] as const)}
        value={kind}
        any={t('search.kind_any')}
        onChange={value => set({ kind: value })}
      />
      <ChipWithPanel
        label={t('search.time')}
        value={nameOfDays(filter)}
        onClear={() => set({ since: '', until: '' })}
      >
        {close => <Days filter={filter} onChange={set} onChosen={close} />}
      </ChipWithPanel>
    </div>
  )
}

interface ChipWithPanelProps {
  label: string
  value: string
  onClear(): void
  children(close: () => void): ComponentChildren
}

/** A chip whose choices need more than a list. They are in a panel below the chips, until the focus leaves it. */
function ChipWithPanel({ label, value, onClear, children }: ChipWithPanelProps) {
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

/** Days back to choose from; 0 is today. */
const spans: readonly [days: number, text: TextKey][] = [
  [0, 'search.today'],
  [6, 'search.week'],
  [29, 'search.month'],
]
const daysAgo = (days: number) => dateOf(dayFrom(dateOf(now.value), -days))

function nameOfDays({ since = '', until = '' }: Filter): string {
  const span = until === '' ? spans.find(([days]) => daysAgo(days) === since) : undefined
  if (span) return t(span[1])
  const [from, to] = [since, until].map(one => one && day(dayFrom(one)))
  if (from && to) return from === to ? from : `${from} – ${to}`
  return from ? t('search.since_day', { day: from }) : to ? t('search.until_day', { day: to }) : ''
}

function Days({ filter, onChange, onChosen }: FiltersProps & { onChosen(): void }) {
  const { since = '', until = '' } = filter
  const today = dateOf(now.value)
  return (
    <>
      <div class="spans">
        {spans.map(([days, text]) => (
          <button
            key={days}
            type="button"
            class="button"
            aria-pressed={until === '' && since === daysAgo(days)}
            onClick={() => {
              onChange({ since: daysAgo(days), until: '' })
              onChosen()
            }}
          >
            {t(text)}
          </button>
        ))}
      </div>
      <Day
        label={t('search.since')}
        value={since}
        max={until || today}
        onChange={day => onChange({ since: day })}
      />
      <Day
        label={t('search.until')}
        value={until}
        {...(since && { min: since })}
        max={today}
        onChange={day => onChange({ until: day })}
      />
    </>
  )
}

interface DayProps {
  label: string
  value: string
  min?: string
  max: string
  onChange(value: string): void
}

const Day = ({ label, onChange, ...bounds }: DayProps) => (
  <Field
    label={label}
    input={{
      ...bounds,
      type: 'date',
      // A year that is being typed looks like one of the first century.
      onChange({ currentTarget: { value: day } }) {
        if (day === '' || day > '1971') onChange(day)
      },
    }}
  />
)
