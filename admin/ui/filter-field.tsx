/** A field that filters a list while the person types. */
import type { Signal } from '@preact/signals'
import { Icon } from './icon.tsx'

export const FilterField = ({ label, wanted }: { label: string; wanted: Signal<string> }) => (
  <label class="filter">
    <span class="visually-hidden">{label}</span>
    <Icon name="search" size={18} />
    <input
      class="input"
      type="search"
      placeholder={label}
      value={wanted.value}
      onInput={event => {
        wanted.value = event.currentTarget.value
      }}
    />
  </label>
)
