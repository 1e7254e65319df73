/** The QR code, large and sharp, in a place that keeps its size whatever is in it. */
import { t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'

export function Code({
  state,
  text,
  svg,
  notice,
}: {
  state: 'starting' | 'waiting' | 'scaned'
  /** What is waited for. */
  text: string
  svg?: string
  /** Why the picture is another one now. */
  notice?: string
}) {
  return (
    <div class="login-code">
      <div class="picture" data-state={state}>
        {svg !== undefined && (
          <img
            key={svg}
            src={`data:image/svg+xml,${encodeURIComponent(svg)}`}
            alt={t('login.qr_alt')}
            width={264}
            height={264}
          />
        )}
        {state === 'starting' && <span class="spinner" />}
        {state === 'scaned' && (
          <span class="over">
            <Icon name="check" size={48} />
          </span>
        )}
      </div>
      <div role="status">
        {notice !== undefined && <p class="notice warn">{notice}</p>}
        <p class="login-state">{text}</p>
      </div>
    </div>
  )
}
