/** Messages per hour of the last day: as a chart, and the same numbers as a table. */
import { useSignal } from '@preact/signals'
import { useAnswer } from '../answers.ts'
import { call, type Hour } from '../api.ts'
import { errorText } from '../errors.ts'
import { number, t } from '../i18n.ts'
import { day } from '../times.ts'
import { Chart, range } from './chart.tsx'

const askHours = (): Promise<readonly Hour[]> => call('count_messages', { hours: 24 })

export function Activity() {
  const hours = useAnswer(askHours, 5000)
  const all = hours.value.value
  const total = (kind: 'received' | 'sent') =>
    all ? number(all.reduce((sum, one) => sum + one[kind], 0)) : '–'
  return (
    <section class="activity" aria-labelledby="activity">
      <h2 id="activity">{t('overview.activity')}</h2>
      <div class="rows">
        {hours.error.value !== undefined && !all ? (
          <div class="notice warn">
            <p>{errorText(hours.error.value).title}</p>
          </div>
        ) : (
          <>
            <dl class="totals">
              {(['received', 'sent'] as const).map(kind => (
                <div key={kind} class={kind}>
                  <dt>{t(`overview.${kind}`)}</dt>
                  <dd>{total(kind)}</dd>
                </div>
              ))}
            </dl>
            {all ? <Chart hours={all} /> : <Coming />}
            <Numbers hours={all ?? []} />
          </>
        )}
      </div>
    </section>
  )
}

/** A placeholder as high as the chart, so that nothing moves when the chart comes. */
const Coming = () => (
  <>
    <div class="skeleton chart" />
    <p class="reading small" aria-hidden="true">
      {t('overview.choose_none')}
    </p>
  </>
)

function Numbers({ hours }: { hours: readonly Hour[] }) {
  const isOpen = useSignal(false)
  return (
    <details
      class="numbers"
      onToggle={event => {
        isOpen.value = event.currentTarget.open
      }}
    >
      <summary>{t('overview.as_table')}</summary>
      {isOpen.value && <Table hours={hours} />}
    </details>
  )
}

const Table = ({ hours }: { hours: readonly Hour[] }) => (
  <table>
    <thead>
      <tr>
        <th scope="col">{t('overview.choose_hour')}</th>
        <th scope="col">{t('overview.received')}</th>
        <th scope="col">{t('overview.sent')}</th>
      </tr>
    </thead>
    <tbody>
      {hours.toReversed().map(({ from, received, sent }) => (
        <tr key={from}>
          <th scope="row">
            {day(from)} {range(from)}
          </th>
          <td>{number(received)}</td>
          <td>{number(sent)}</td>
        </tr>
      ))}
    </tbody>
  </table>
)
