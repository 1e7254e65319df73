/** The dialog that exports a conversation: a link to the file, which the browser downloads. */
import { type Signal, useSignal } from '@preact/signals'
import { useId, useRef } from 'preact/hooks'
import { exportUrl } from '../api.ts'
import { locale, type TextKey, t, timeFormat } from '../i18n.ts'
import type { Place } from '../place.ts'
import { dateOf, dayFrom, now } from '../times.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Field } from '../ui/field.tsx'
import { set } from '../ui/set.ts'
import { tell } from '../ui/toasts.tsx'

interface Choice {
  value: string
  name: TextKey
  about?: TextKey
}

const formats: readonly Choice[] = [
  { value: 'html', name: 'people.export_page', about: 'people.export_page_about' },
  { value: 'jsonl', name: 'people.export_lines', about: 'people.export_lines_about' },
]
const spans: readonly Choice[] = [
  { value: 'all', name: 'people.export_all' },
  { value: 'since', name: 'people.export_since' },
]
const monthMs = 30 * 86_400_000

export function Export({ place: { session, userId }, onClose }: { place: Place; onClose(): void }) {
  const field = useRef<HTMLInputElement>(null)
  const format = useSignal('html')
  const span = useSignal('all')
  const day = useSignal(dateOf(now.value - monthMs))
  const isSince = span.value === 'since'
  const since = dayFrom(day.value)
  const isMissing = isSince && Number.isNaN(since)
  const url = exportUrl({
    format: format.value as 'html' | 'jsonl',
    session,
    user: userId,
    language: locale.value,
    time_zone: timeFormat({}).resolvedOptions().timeZone,
    ...(isSince && { since }),
  })
  const begin = (event: Event) => {
    if (isMissing) {
      event.preventDefault()
      return field.current?.focus()
    }
    tell(t('people.export_begun'))
    onClose()
  }
  return (
    <Dialog
      title={t('people.export_heading')}
      onClose={onClose}
      footer={<Footer url={url} begin={begin} onClose={onClose} />}
    >
      <div class="asked-for">
        <Radios legend={t('people.export_format')} choices={formats} chosen={format} />
        <Radios legend={t('people.export_messages')} choices={spans} chosen={span} />
        {isSince && (
          <Field
            label={t('people.export_day')}
            input={{
              type: 'date',
              ref: field,
              value: day.value,
              max: dateOf(now.value),
              'aria-invalid': isMissing,
              onInput(event) {
                day.value = event.currentTarget.value
              },
            }}
          />
        )}
        <p class="soft small">{t('people.export_note')}</p>
      </div>
    </Dialog>
  )
}

const Footer = ({ url, begin, onClose }: { url: string; begin(event: Event): void; onClose(): void }) => (
  <>
    <button class="button" type="button" onClick={onClose}>
      {t('action.cancel')}
    </button>
    <a class="button primary" download href={url} onClick={begin}>
      {t('people.export_go')}
    </a>
  </>
)

interface RadiosProps {
  legend: string
  choices: readonly Choice[]
  chosen: Signal<string>
}

function Radios({ legend, choices, chosen }: RadiosProps) {
  const name = useId()
  return (
    <fieldset class={choices.some(({ about }) => about) ? 'field choice tall' : 'field choice'}>
      <legend class="label">{legend}</legend>
      <div>
        {choices.map(({ value, name: text, about }) => (
          <label key={value}>
            <input type="radio" name={name} checked={chosen.value === value} onChange={set(chosen, value)} />
            <span>
              {about ? <b>{t(text)}</b> : t(text)}
              {about && <span class="soft small block">{t(about)}</span>}
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  )
}
