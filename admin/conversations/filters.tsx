/** The filters of the search, as chips in one line: account, person, kind, days. */
import { type TextKey, t } from '../i18n.ts'
import { conversations, nameOf, sessions } from '../live.ts'
import type { Filter } from '../place.ts'
import { dateOf, day, dayFrom, now } from '../times.ts'
import { Chip } from '../ui/chips.tsx'
import { Field } from '../ui/field.tsx'
import { ChipWithPanel, PickChip } from '../ui/pick.tsx'

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
      <PickChip
        label={t('search.person')}
        options={people}
        value={person}
        any={t('search.person_any')}
        onChange={value => set({ person: value })}
      />
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

/** The spans to choose from, in days back; 0 is today. Weeks begin on Monday. */
function spansNow(): readonly { text: TextKey; since: string; until: string }[] {
  const daysAgo = (days: number) => dateOf(dayFrom(dateOf(now.value), -days))
  const sunday = new Date(now.value).getDay() || 7
  return [
    { text: 'search.today', since: daysAgo(0), until: '' },
    { text: 'search.week', since: daysAgo(6), until: '' },
    { text: 'search.last_week', since: daysAgo(sunday + 6), until: daysAgo(sunday) },
    { text: 'search.month', since: daysAgo(29), until: '' },
  ]
}

function nameOfDays({ since = '', until = '' }: Filter): string {
  const span = spansNow().find(one => one.since === since && one.until === until)
  if (span) return t(span.text)
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
        {spansNow().map(({ text, ...span }) => (
          <button
            key={text}
            type="button"
            class="button"
            aria-pressed={since === span.since && until === span.until}
            onClick={() => {
              onChange(span)
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
