/** A matter of the overview: one line, the button for it, and its detail on a press. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { Icon } from '../ui/icon.tsx'

export interface Matter {
  tone: 'bad' | 'warn' | 'calm'
  title: string
  action?: ComponentChildren
  /** What it means, and what helps. */
  note?: string | undefined
  /** More of this one. */
  about?: ComponentChildren
}

export function Row({ tone, title, action, note, about }: Matter) {
  const opens = Boolean(note ?? about)
  const isOpen = useSignal(false)
  const detail = useId()
  const name = (
    <>
      <span class="dot" />
      <span class="cut foreign">{title}</span>
    </>
  )
  return (
    <li class={`concern ${tone}`}>
      <h3>
        {opens ? (
          <button
            type="button"
            aria-expanded={isOpen.value}
            aria-controls={detail}
            title={title}
            onClick={() => {
              isOpen.value = !isOpen.value
            }}
          >
            {name}
            <Icon name="chevron" size={16} />
          </button>
        ) : (
          name
        )}
      </h3>
      {action}
      {opens && (
        <div class="detail" id={detail} hidden={!isOpen.value}>
          {isOpen.value && note && <p class="soft">{note}</p>}
          {isOpen.value && about}
        </div>
      )}
    </li>
  )
}
