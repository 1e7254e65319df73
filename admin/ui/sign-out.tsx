/** Ends the sign-in of this browser. */
import { useSignal } from '@preact/signals'
import { api } from '../api.ts'
import { forgetEverything } from '../conversations/kept.ts'
import { t } from '../i18n.ts'
import { signedOut } from '../live.ts'
import { Icon } from './icon.tsx'
import { tellError } from './toasts.tsx'

export function SignOut() {
  const busy = useSignal(false)
  const leave = async () => {
    busy.value = true
    try {
      await api.signOut()
      await forgetEverything()
      signedOut.value = true
    } catch (error) {
      tellError(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <button type="button" class="button" disabled={busy.value} onClick={leave}>
      <Icon name="out" />
      {t('settings.sign_out')}
    </button>
  )
}
