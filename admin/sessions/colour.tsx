/** A colour for each account, where several are in view. */
import { computed } from '@preact/signals'
import { t } from '../i18n.ts'
import { conversations, sessions } from '../live.ts'
import { hueOf } from '../users/avatar.tsx'

const allHues = 8

/** Names of the accounts in the list. As a text, since the list changes with each message and they do not. */
const inView = computed(() =>
  [...new Set((conversations.value ?? []).map(({ session }) => session))].sort().join('\n'),
)
export const accountsInView = (): string[] => inView.value.split('\n')

/** Names of the accounts, the oldest first; then those that are logged out. A login under way is no account yet. */
const names = computed(() => {
  const all = (sessions.value ?? [])
    .filter(({ created_at }) => created_at !== undefined)
    .toSorted((a, b) => a.created_at! - b.created_at!)
  return [...all.map(({ name }) => name), inView.value].join('\n')
})

/** Classes of the dots of the accounts. The oldest chooses first, so that a new account changes no dot of another. */
const dots = computed(() => {
  const found = new Map<string, string>()
  const taken = new Set<number>()
  for (const name of new Set(names.value.split('\n'))) {
    // The ninth account and later ones have rings.
    const shape = taken.size < allHues ? 0 : allHues
    let hue = hueOf(name)
    while (taken.has(shape + hue) && taken.size < 2 * allHues) hue = (hue + 1) % allHues
    taken.add(shape + hue)
    found.set(name, `hue-${hue}${shape === 0 ? '' : ' ring'}`)
  }
  return found
})

/** A dot in the colour of an account. The name is in the tooltip, and for screen readers. */
export const AccountDot = ({ name }: { name: string }) => (
  <span class={`account-dot ${dots.value.get(name)}`} title={t('chat.session', { session: name })}>
    <span class="visually-hidden">{t('chat.session', { session: name })}</span>
  </span>
)
