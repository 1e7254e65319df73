/** The QR code, large and sharp, in a box of fixed size. */
import { t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'

export function Code({
  state,
  text,
  svg,
  isNews,
}: {
  /** ready: the code is fetched when the person asks for it. */
  state: 'ready' | 'starting' | 'waiting' | 'scaned'
  /** What to do next, or why there is a new code. */
  text: string
  svg?: string
  isNews?: boolean
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
        {state === 'ready' && <Icon name="phone" size={48} />}
        {state === 'starting' && <span class="spinner" />}
        {state === 'scaned' && (
          <span class="over">
            <Icon name="check" size={48} />
          </span>
        )}
      </div>
      <p class={`login-state${isNews ? ' news' : ''}`} role="status">
        {text}
      </p>
    </div>
  )
}
