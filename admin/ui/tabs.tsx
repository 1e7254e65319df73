/** Tabs for a few states that exclude each other. */
import { useRef } from 'preact/hooks'
import { number } from '../i18n.ts'

interface TabsProps<T extends string> {
  label: string
  tabs: readonly { id: T; text: string; count?: number | undefined }[]
  value: T
  onChange(value: T): void
}

export function Tabs<T extends string>({ label, tabs, value, onChange }: TabsProps<T>) {
  const list = useRef<HTMLDivElement>(null)
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    const at = tabs.findIndex(({ id }) => id === value)
    const next = (at + step + tabs.length) % tabs.length
    onChange(tabs[next]!.id)
    ;(list.current!.children[next] as HTMLElement).focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={onKeyDown}>
      {tabs.map(({ id, text, count }) => (
        <button
          key={id}
          type="button"
          role="tab"
          aria-selected={id === value}
          tabIndex={id === value ? 0 : -1}
          onClick={() => onChange(id)}
        >
          {text}
          {count !== undefined && <span class="soft"> {number(count)}</span>}
        </button>
      ))}
    </div>
  )
}
