/** Signs this browser out. */
import { signOut } from '../api.ts'
import { forgetEverything } from '../conversations/kept.ts'
import { t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'
import { useWork } from '../ui/work.ts'

export function SignOut() {
  const { busy, work } = useWork()
  const leave = async () => {
    await signOut()
    await forgetEverything()
    // A reload drops what the page holds in memory, and calls that are under way.
    location.reload()
  }
  return (
    <button type="button" class="button" disabled={busy.value} onClick={() => work(leave)}>
      <Icon name="out" />
      {t('settings.sign_out')}
    </button>
  )
}
