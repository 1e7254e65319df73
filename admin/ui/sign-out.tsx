/** Ends the sign-in of this browser. */
import { api } from '../api.ts'
import { forgetEverything } from '../conversations/kept.ts'
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'
import { useWork } from './work.ts'

export function SignOut() {
  const { busy, work } = useWork()
  const leave = async () => {
    await api.signOut()
    await forgetEverything()
    // What the page itself remembers goes with it, and what was under way.
    location.reload()
  }
  return (
    <button type="button" class="button" disabled={busy.value} onClick={() => work(leave)}>
      <Icon name="out" />
      {t('settings.sign_out')}
    </button>
  )
}
