/**
 * The view of `toasts.tsx`. @zag-js/toast announces them to screen readers, and keeps them while the pointer
 * is on them.
 */
import { normalizeProps, useMachine } from '@zag-js/preact'
import * as toast from '@zag-js/toast'
import { useId } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'
import { Portal } from './portal.tsx'

/** Keeps the lower edge free: the navigation of a phone and the message field. */
const offsets = { top: '16px', right: '16px', bottom: '88px', left: '16px' }
export const store = toast.createStore({
  placement: 'bottom-end',
  offsets,
  overlap: false,
  gap: 8,
  duration: 5000,
})

export function ToastsView() {
  const service = useMachine(toast.group.machine, { id: useId(), store })
  const parts = toast.group.connect(service, normalizeProps)
  return (
    <Portal>
      <div {...parts.getGroupProps()} class="toasts">
        {parts.getToasts().map((one, index) => (
          <Toast key={one.id} one={one} index={index} parent={service} />
        ))}
      </div>
    </Portal>
  )
}

function Toast({ one, index, parent }: { one: toast.Options; index: number; parent: toast.GroupService }) {
  const service = useMachine(toast.machine, { ...one, parent, index } as toast.Props)
  const parts = toast.connect(service, normalizeProps)
  return (
    <div {...parts.getRootProps()} class="toast">
      {one.type === 'loading' ? (
        <span class="spinner" aria-hidden="true" />
      ) : (
        <Icon name={one.type === 'success' ? 'check' : 'warn'} />
      )}
      <div>
        <div {...parts.getTitleProps()} class="foreign">
          {parts.title}
        </div>
        {parts.description && (
          <div {...parts.getDescriptionProps()} class="soft small foreign">
            {parts.description}
          </div>
        )}
      </div>
      <button {...parts.getCloseTriggerProps()} class="button plain icon-only" aria-label={t('action.close')}>
        <Icon name="close" size={16} />
      </button>
    </div>
  )
}
