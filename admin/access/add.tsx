/** The dialog that makes a key. The key is shown afterwards, once. */
import { useSignal } from '@preact/signals'
import { errorText } from '../errors.ts'
import { type TextKey, t } from '../i18n.ts'
import { sessions } from '../live.ts'
import { ownRights, rightName } from '../rights.ts'
import { timeNow } from '../times.ts'
import { Ask } from '../ui/ask.tsx'
import { Choice } from '../ui/choice.tsx'
import { Field } from '../ui/field.tsx'
import { Icon } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { type AddedKey, keyCalls, keys, type NewKeyInput } from './keys.ts'
import { roles } from './words.ts'

interface AddProps {
  onClose(): void
  onAdded(added: AddedKey): void
}

const dayMs = 86_400_000
const megabyte = 1_000_000

/** Lifetimes in days; 0: none. */
const lifetimes: readonly [days: number, text: TextKey][] = [
  [0, 'access.expires_never'],
  [1, 'access.days'],
  [7, 'access.days'],
  [30, 'access.days'],
  [90, 'access.days'],
  [365, 'access.days'],
]

export function AddKey({ onClose, onAdded }: AddProps) {
  const problem = useSignal<{ title: string; hint: string } | undefined>(undefined)
  return (
    <Ask
      title={t('access.add')}
      action={t('access.add')}
      onClose={onClose}
      onError={error => {
        problem.value = errorText(error)
      }}
      run={async form => {
        problem.value = undefined
        const typed = typedIn(form)
        if (typed.name === '') problem.value = { title: t('access.name_missing'), hint: '' }
        else onAdded(await keyCalls.add(typed))
      }}
    >
      {keys.value?.length === 0 && (
        <p class="notice warn small">
          <Icon name="warn" size={16} />
          <span>{t('access.first_about')}</span>
        </p>
      )}
      <Field
        label={t('access.name')}
        about={t('access.people_about')}
        input={{ name: 'name', maxLength: 64, placeholder: t('access.name_example') }}
      />
      <ScopeFields />
      <RoleFields />
      <Choice label={t('access.expires')} name="days">
        {lifetimes.map(([days, text]) => (
          <option key={days} value={days}>
            {t(text, { count: days })}
          </option>
        ))}
      </Choice>
      <LimitFields />
      <div role="alert">
        {problem.value && (
          <p class="problem">
            {problem.value.title} <span class="foreign">{problem.value.hint}</span>
          </p>
        )}
      </div>
    </Ask>
  )
}

/** The role, and rights beside it. */
function RoleFields() {
  const role = useSignal('read')
  // A key that asks for approval, or needs none, cannot approve.
  const sends = /^(draft|reply|operate)$/.test(role.value)
  const further = ownRights.filter(right => right !== 'approve' || !sends)
  return (
    <>
      <fieldset class="field choice tall">
        <legend class="label">{t('access.role')}</legend>
        <div>
          {Object.entries(roles).map(([word, { name, about }]) => (
            <Role key={word} word={word} name={name} about={about} role={role} />
          ))}
          <Role word="" name="access.role_none" about="access.role_none_about" role={role} />
        </div>
      </fieldset>
      {role.value !== 'all' && (
        <details class="more-fields" open={role.value === ''}>
          <summary>{t('access.rights')}</summary>
          <fieldset class="field choice">
            <legend class="visually-hidden">{t('access.rights')}</legend>
            <div>
              {further.map(right => (
                <label key={right}>
                  <input type="checkbox" name="rights" value={right} />
                  <span>{rightName(right)}</span>
                </label>
              ))}
            </div>
          </fieldset>
        </details>
      )}
    </>
  )
}

interface RoleProps {
  word: string
  name: TextKey
  about: TextKey
  role: { value: string }
}

const Role = ({ word, name, about, role }: RoleProps) => (
  <label>
    <input
      type="radio"
      name="role"
      value={word}
      checked={role.value === word}
      onChange={() => {
        role.value = word
      }}
    />
    <span>
      <b>{t(name)}</b>
      <span class="soft small block">
        {t(about)} {word !== '' && <code>{word}</code>}
      </span>
    </span>
  </label>
)

/** The accounts and users that the key may see: all, or certain ones. */
function ScopeFields() {
  const isLimited = useSignal(false)
  return (
    <>
      <fieldset class="field choice tall">
        <legend class="label">{t('access.scope_title')}</legend>
        <div>
          {([false, true] as const).map(limits => (
            <label key={`${limits}`}>
              <input
                type="radio"
                name="scope"
                checked={isLimited.value === limits}
                onChange={set(isLimited, limits)}
              />
              <span>{t(limits ? 'access.scope' : 'access.scope_all')}</span>
            </label>
          ))}
        </div>
      </fieldset>
      {isLimited.value && <LimitedScope />}
    </>
  )
}

function LimitedScope() {
  const all = sessions.value?.filter(({ bot_id }) => bot_id !== undefined) ?? []
  return (
    <>
      <p class="soft small">{t('access.scope_about')}</p>
      {all.length > 0 && (
        <fieldset class="field choice">
          <legend class="label">{t('nav.sessions')}</legend>
          <div>
            {all.map(({ name }) => (
              <label key={name}>
                <input type="checkbox" name="sessions" value={name} />
                <span class="foreign">{name}</span>
              </label>
            ))}
          </div>
        </fieldset>
      )}
      <Field
        label={t('access.users')}
        about={t('access.users_about')}
        rows={2}
        input={{ name: 'users', spellcheck: false }}
      />
    </>
  )
}

const limitTexts = {
  calls_per_second: 'access.limit_calls',
  open: 'access.limit_open',
  megabytes: 'access.limit_bytes',
} as const

const LimitFields = () => (
  <details class="more-fields">
    <summary>{t('access.limits')}</summary>
    <p class="soft small">{t('access.limits_about')}</p>
    {Object.entries(limitTexts).map(([name, text]) => (
      <Field key={name} label={t(text)} input={{ name, type: 'number', min: 1, step: 1 }} />
    ))}
    <p class="soft small">{t('access.limits_note')}</p>
  </details>
)

function typedIn(data: FormData): NewKeyInput {
  const textOf = (name: string) => String(data.get(name) ?? '').trim()
  const role = textOf('role')
  const limit = (name: string, unit = 1) => {
    const value = Math.round(Number(textOf(name)) * unit)
    return value > 0 ? value : undefined
  }
  const [calls, open, bytes] = [limit('calls_per_second'), limit('open'), limit('megabytes', megabyte)]
  const accounts = data.getAll('sessions').map(String)
  const users = textOf('users')
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
  const days = Number(textOf('days'))
  return {
    name: textOf('name'),
    can: [...(role === '' ? [] : [role]), ...data.getAll('rights').map(String)] as NonNullable<
      NewKeyInput['can']
    >,
    ...(accounts.length > 0 && { sessions: accounts }),
    ...(users.length > 0 && { users }),
    ...(days > 0 && { expires_at: Math.round(timeNow() + days * dayMs) }),
    limits: {
      ...(calls !== undefined && { calls_per_second: calls }),
      ...(open !== undefined && { open }),
      ...(bytes !== undefined && { bytes_per_day: bytes }),
    },
  }
}
