/** Filters as chips. One that is set is filled, and has a cross. */
import { t } from '../i18n.ts'
import { Icon } from './icon.tsx'

interface ChipProps {
  label: string
  /** Once it is set, it shows the value alone. */
  short?: boolean
  /** The names to choose from, by value. */
  options: Iterable<readonly [value: string, name: string]>
  /** '' if it is not set. */
  value: string
  /** The name of ''. */
  any: string
  onChange(value: string): void
}

export function Chip({ label, short, options, value, any, onChange }: ChipProps) {
  const all = [...options]
  const name = all.find(([one]) => one === value)?.[1] ?? value
  return (
    <span class="chip" data-set={value === '' ? undefined : ''}>
      <span class="cut" aria-hidden="true">
        {value === '' ? label : short ? name : t('filter.set', { label, value: name })}
      </span>
      {value === '' && <Icon name="chevron" size={14} />}
      <select aria-label={label} value={value} onChange={event => onChange(event.currentTarget.value)}>
        <option value="">{any}</option>
        {all.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
      {value !== '' && <ChipCross label={label} onClear={() => onChange('')} />}
    </span>
  )
}

/** The cross of a chip that is set. */
export const ChipCross = ({ label, onClear }: { label: string; onClear(): void }) => (
  <button type="button" aria-label={t('filter.clear', { label })} onClick={onClear}>
    <Icon name="close" size={14} />
  </button>
)
