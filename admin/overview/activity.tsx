/**
 * Messages per hour of the last day: two bars per hour, aligned to pixels. The arrow keys and the pointer
 * choose an hour, and its numbers are shown. The same numbers are there as a table.
 */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { call, type Hour } from '../api.ts'
import { errorText } from '../errors.ts'
import { number, t } from '../i18n.ts'
import { day, hourName, now, sameDay, span } from '../times.ts'

const height = 168
/** Room above the bars for half of the top label, and below them for the hours; px at the usual text size. */
const usualTop = 10
const hoursHeight = 24
const hourMs = 3_600_000

const askHours = (): Promise<readonly Hour[]> => call('count_messages', { hours: 24 })

export function Activity() {
  const hours = useAnswer(askHours, 5000)
  const all = hours.value.value
  const received = all?.reduce((sum, one) => sum + one.received, 0) ?? 0
  const sent = all?.reduce((sum, one) => sum + one.sent, 0) ?? 0
  return (
    <section class="card activity" aria-labelledby="activity">
      <h2 id="activity">{t('overview.activity')}</h2>
      {hours.error.value !== undefined && !all ? (
        <div class="notice warn">
          <p>{errorText(hours.error.value).title}</p>
        </div>
      ) : (
        <>
          <dl class="totals">
            <div class="received">
              <dt>{t('overview.received')}</dt>
              <dd>{all ? number(received) : '–'}</dd>
            </div>
            <div class="sent">
              <dt>{t('overview.sent')}</dt>
              <dd>{all ? number(sent) : '–'}</dd>
            </div>
          </dl>
          {all ? <Chart hours={all} /> : <Coming />}
        </>
      )}
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
    <details class="numbers">
      <summary>{t('overview.as_table')}</summary>
    </details>
  </>
)

function Chart({ hours }: { hours: readonly Hour[] }) {
  const box = useRef<HTMLDivElement>(null)
  const width = useSignal(0)
  /** The text size that the viewer chose, relative to the usual one. */
  const zoom = useSignal(1)
  const chosen = useSignal<number | undefined>(undefined)
  const isTable = useSignal(false)
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (!entry) return
      width.value = Math.floor(entry.contentRect.width)
      zoom.value = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16
    })
    observer.observe(box.current!)
    return () => observer.disconnect()
  }, [width, zoom])

  const most = highest(Math.max(...hours.map(one => Math.max(one.received, one.sent))))
  const labels = [0, most / 2, most]
  const start = Math.max(...labels.map(value => number(value).length)) * 7 * zoom.value + 10
  const top = usualTop * zoom.value
  const plotHeight = height - top - hoursHeight * zoom.value
  const step = Math.max(0, (width.value - start) / hours.length)
  const y = (value: number) => top + plotHeight * (1 - value / most)
  const at = chosen.value === undefined ? undefined : Math.min(chosen.value, hours.length - 1)
  const choose = (index: number | undefined) => {
    chosen.value = index === undefined ? undefined : Math.max(0, Math.min(hours.length - 1, index))
  }
  const chooseByPointer = (event: PointerEvent) => {
    const from = box.current!.getBoundingClientRect()
    const isMirrored = getComputedStyle(box.current!).direction === 'rtl'
    const along = isMirrored ? from.right - event.clientX : event.clientX - from.left
    choose(step > 0 ? Math.floor((along - start) / step) : undefined)
  }
  const chooseByKey = (event: KeyboardEvent) => {
    const from = at ?? hours.length
    const to = { ArrowLeft: from - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: hours.length - 1 }[event.key]
    if (event.key === 'Escape') choose(undefined)
    if (to === undefined) return
    event.preventDefault()
    choose(to)
  }
  return (
    <>
      <div
        ref={box}
        class="chart"
        role="slider"
        tabIndex={0}
        aria-label={t('overview.choose_hour')}
        aria-valuemin={1}
        aria-valuemax={hours.length}
        aria-valuenow={(at ?? hours.length - 1) + 1}
        aria-valuetext={at === undefined ? t('overview.choose_none') : hourWords(hours[at]!)}
        onKeyDown={chooseByKey}
        onPointerMove={chooseByPointer}
        onPointerDown={chooseByPointer}
        onPointerLeave={event => event.pointerType === 'mouse' && choose(undefined)}
        onBlur={() => choose(undefined)}
      >
        {width.value > 0 && (
          <svg width={width.value} height={height} aria-hidden="true" focusable="false">
            {labels.map(value => (
              <g key={value} class="grid">
                <line
                  x1={start}
                  x2={width.value}
                  y1={Math.round(y(value)) + 0.5}
                  y2={Math.round(y(value)) + 0.5}
                />
                <text x={start - 8} y={y(value) + 4} text-anchor="end">
                  {Number.isInteger(value) ? number(value) : ''}
                </text>
              </g>
            ))}
            {hours.map((hour, index) => (
              <Bars
                key={hour.from}
                hour={hour}
                x={start + index * step}
                step={step}
                y={y}
                isChosen={index === at}
                top={top}
                plotHeight={plotHeight}
                labelled={isLabelled(hour.from, step / zoom.value)}
                isLast={(hours.length - index - 0.5) * step < 20 * zoom.value}
              />
            ))}
          </svg>
        )}
      </div>
      <p class="reading small" aria-hidden="true">
        {at === undefined ? t('overview.choose_none') : hourWords(hours[at]!)}
      </p>
      <details
        class="numbers"
        onToggle={event => {
          isTable.value = event.currentTarget.open
        }}
      >
        <summary>{t('overview.as_table')}</summary>
        {isTable.value && <Table hours={hours} />}
      </details>
    </>
  )
}

interface BarsProps {
  hour: Hour
  x: number
  step: number
  y(value: number): number
  isChosen: boolean
  /** The upper edge of the plot, px. */
  top: number
  plotHeight: number
  labelled: boolean
  /** Whether the bar is at the right edge, where a centred label would be cut. */
  isLast: boolean
}

function Bars({ hour, x, step, y, isChosen, top, plotHeight, labelled, isLast }: BarsProps) {
  // A gap between hours, and none between the two bars of an hour, shows the pairs.
  const breadth = Math.max(2, Math.floor((step - Math.max(2, step * 0.25)) / 2))
  const from = Math.round(x + (step - breadth * 2) / 2)
  const bar = (value: number, offset: number, kind: string) => {
    if (value === 0) return null
    // A small value must still be visible.
    const tall = Math.max(2, y(0) - y(value))
    return (
      <rect
        class={kind}
        x={from + offset}
        y={y(0) - tall}
        width={breadth}
        height={tall}
        rx={Math.min(2, breadth / 2)}
      />
    )
  }
  return (
    <g>
      {isChosen && <rect class="chosen" x={x} y={top} width={step} height={plotHeight} rx={4} />}
      {bar(hour.received, 0, 'received')}
      {bar(hour.sent, breadth, 'sent')}
      {labelled && (
        <text
          class="hour"
          x={isLast ? x + step : x + step / 2}
          y={height - 6}
          text-anchor={isLast ? 'end' : 'middle'}
        >
          {hourName(hour.from)}
        </text>
      )}
    </g>
  )
}

/** Whether an hour gets a label: every 3rd, 6th or 12th hour of the viewer's clock, as the room allows. */
function isLabelled(from: number, step: number): boolean {
  const every = step * 3 > 76 ? 3 : step * 6 > 76 ? 6 : 12
  return new Date(from).getHours() % every === 0
}

/** The next of 2, 4, 6, 8, 10, 20, 40 …, so that its half is also a whole number. */
export function highest(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)))
  return [2, 4, 6, 8, 10].map(times => times * power).find(round => round >= value) ?? value
}

const range = (from: number): string => span(from, from + hourMs)

/** Today, 14:00 – 15:00: 3 received, 5 sent. */
const hourWords = ({ from, received, sent }: Hour): string =>
  t('overview.hour', {
    when: sameDay(from, now.value) ? range(from) : `${day(from)} ${range(from)}`,
    received,
    sent,
  })

const Table = ({ hours }: { hours: readonly Hour[] }) => (
  <table>
    <thead>
      <tr>
        <th scope="col">{t('overview.hour_column')}</th>
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
