/** The filters of the search: account, person, kind, days. Those that are set are chips. */
import { useId } from 'preact/hooks'
import { isolated, type TextKey, t } from '../i18n.ts'
import { conversations, nameOf, sessions } from '../live.ts'
import type { Filter } from '../place.ts'
import { dateOf, now } from '../times.ts'
import { ChipCross } from '../ui/chips.tsx'
import { Choice } from '../ui/choice.tsx'
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

/** Returns a filter with another value; '' for any. */
function changed(filter: Filter, key: keyof Filter, value: string): Filter {
  const { [key]: _, ...rest } = filter
  return value === '' ? rest : { ...rest, [key]: value }
}

/** The filters that are set, without the account: that has its colour. */
export function SetFilters({ filter, onChange }: FiltersProps) {
  const { account = '', person = '', kind = '', since = '', until = '' } = filter
  const nameOfPerson = () => {
    const one = conversations.value?.find(
      ({ session, user_id }) => user_id === person && (account === '' || session === account),
    )
    return (one && nameOf(one.session, person)) ?? person
  }
  const kindText = kinds.find(([value]) => value === kind)?.[1]
  const all: readonly [key: keyof Filter, label: TextKey, value: string][] = [
    ['kind', 'search.kind', kindText ? t(kindText) : kind],
    ['person', 'search.person', person && nameOfPerson()],
    ['since', 'search.since', since],
    ['until', 'search.until', until],
  ]
  return all.map(
    ([key, label, value]) =>
      value !== '' && (
        <li key={key} class="chip" data-set>
          <span class="cut">{t('filter.set', { label: t(label), value: isolated(value) })}</span>
          <ChipCross label={t(label)} onClear={() => onChange(changed(filter, key, ''))} />
        </li>
      ),
  )
}

export function Filters({ filter, onChange }: FiltersProps) {
  const set = (key: keyof Filter, value: string) => onChange(changed(filter, key, value))
  const { account = '', person = '', kind = '', since = '', until = '' } = filter
  const accounts = (sessions.value ?? []).map(({ name }) => name)
  // A logged-out account still has its messages.
  if (account !== '' && !accounts.includes(account)) accounts.push(account)
  const people = new Map(
    (conversations.value ?? [])
      .filter(({ session }) => account === '' || session === account)
      .map(({ session, user_id }) => [user_id, nameOf(session, user_id) ?? user_id]),
  )
  if (person !== '' && !people.has(person)) people.set(person, person)
  const today = dateOf(now.value)
  const several = accounts.length > 1 || account !== ''
  return (
    <div class="search-filters">
      {several && (
        <Choice half label={t('search.account')} value={account} onChange={value => set('account', value)}>
          <option value="">{t('search.account_any')}</option>
          {accounts.map(name => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
      )}
      <Choice half={several} label={t('search.kind')} value={kind} onChange={value => set('kind', value)}>
        <option value="">{t('search.kind_any')}</option>
        {kinds.map(([value, text]) => (
          <option key={value} value={value}>
            {t(text)}
          </option>
        ))}
      </Choice>
      <Pick
        label={t('search.person')}
        options={people}
        value={person}
        any={t('search.person_any')}
        onChange={value => set('person', value)}
      />
      <Day label={t('search.since')} value={since} max={until || today} onChange={day => set('since', day)} />
      <Day
        label={t('search.until')}
        value={until}
        min={since}
        max={today}
        onChange={day => set('until', day)}
      />
      {Object.keys(filter).length > 0 && (
        <button type="button" class="link" onClick={() => onChange({})}>
          {t('search.clear_filters')}
        </button>
      )}
    </div>
  )
}

interface DayProps {
  label: string
  value: string
  min?: string
  max: string
  onChange(value: string): void
}

function Day({ label, value, min, max, onChange }: DayProps) {
  const id = useId()
  return (
    <div class="field half">
      <label for={id}>{label}</label>
      <input
        class="input"
        type="date"
        id={id}
        value={value}
        max={max}
        {...(min && { min })}
        // A year that is being typed looks like one of the first century.
        onChange={event => {
          const { value: day } = event.currentTarget
          if (day === '' || day > '1971') onChange(day)
        }}
      />
    </div>
  )
}
