import * as dialog from '@zag-js/dialog'
import { normalizeProps, useMachine } from '@zag-js/preact'
import { useId } from 'preact/hooks'
import { mediaUrl } from '../api.ts'
import { t } from '../i18n.ts'
import { whole } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Portal } from '../ui/portal.tsx'
import { looked } from './lightbox.tsx'

/** The picture that is looked at. Escape, and a click anywhere beside it, close it. */
export function LightboxView() {
  const service = useMachine(dialog.machine, {
    id: useId(),
    open: true,
    'aria-label': t('chat.picture'),
    onOpenChange: ({ open }) => {
      if (!open) looked.value = undefined
    },
  })
  const parts = dialog.connect(service, normalizeProps)
  const shown = looked.value
  if (!shown) return null
  const { url, message, index } = shown
  return (
    <Portal>
      <div {...parts.getBackdropProps()} class="backdrop dark" />
      <div {...parts.getPositionerProps()} class="lightbox-place">
        <div {...parts.getContentProps()} class="lightbox">
          <header>
            <time class="grow small" dateTime={new Date(message.timestamp).toISOString()}>
              {whole(message.timestamp)}
            </time>
            {message.id > 0 && (
              <a
                class="button plain icon-only"
                href={mediaUrl(message, index)}
                download
                aria-label={t('chat.download')}
                title={t('chat.download')}
              >
                <Icon name="download" />
              </a>
            )}
            <button
              {...parts.getCloseTriggerProps()}
              class="button plain icon-only"
              aria-label={t('action.close')}
            >
              <Icon name="close" />
            </button>
          </header>
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: Escape and the close button do the same */}
          {/* biome-ignore lint/a11y/noStaticElementInteractions: a larger place to click, nothing more */}
          <div
            class="stage"
            onClick={event => {
              if (event.target === event.currentTarget) looked.value = undefined
            }}
          >
            <img src={url} alt={t('chat.picture')} />
          </div>
        </div>
      </div>
    </Portal>
  )
}
