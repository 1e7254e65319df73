/**
 * Two bars per hour, aligned to pixels. The arrow keys and the pointer choose an hour, and its numbers are shown.
 */
import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Hour } from '../api.ts'
import { number, t } from '../i18n.ts'
import { day, hourName, now, sameDay, span } from '../times.ts'

const height = 148
/** Room above the bars for half of the top label, and below them for the hours; px at the usual text size. */
const usualTop = 10
const hoursHeight = 24
const hourMs = 3_600_000

export const range = (from: number): string => span(from, from + hourMs)

/** Today, 14:00 – 15:00: 3 received, 5 sent. */
const hourWords = ({ from, received, sent }: Hour): string =>
  t('overview.hour', {
    when: sameDay(from, now.value) ? range(from) : `${day(from)} ${range(from)}`,
    received,
    sent,
  })

/** The width of the plot, and the text size that the viewer chose, relative to the usual one. */
function useSize(box: RefObject<HTMLDivElement | null>) {
  const size = useSignal({ width: 0, zoom: 1 })
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (!entry) return
      const zoom = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16
      size.value = { width: Math.floor(entry.contentRect.width), zoom }
    })
    observer.observe(box.current!)
    return () => observer.disconnect()
  }, [])
  return size.value
}

export function Chart({ hours }: { hours: readonly Hour[] }) {
  const box = useRef<HTMLDivElement>(null)
  const { width, zoom } = useSize(box)
  const chosen = useSignal<number | undefined>(undefined)
  const last = hours.length - 1
  const at = chosen.value === undefined ? undefined : Math.min(chosen.value, last)
  const choose = (index: number | undefined) => {
    chosen.value = index === undefined ? undefined : Math.max(0, Math.min(last, index))
  }
  const scale = scaleOf(hours, width, zoom)
  const chooseByPointer = (event: PointerEvent) => {
    const from = box.current!.getBoundingClientRect()
    const isMirrored = getComputedStyle(box.current!).direction === 'rtl'
    const along = isMirrored ? from.right - event.clientX : event.clientX - from.left
    choose(scale.step > 0 ? Math.floor((along - scale.start) / scale.step) : undefined)
  }
  const chooseByKey = (event: KeyboardEvent) => {
    const from = at ?? hours.length
    const to = { ArrowLeft: from - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last }[event.key]
    if (event.key === 'Escape') choose(undefined)
    if (to === undefined) return
    event.preventDefault()
    choose(to)
  }
  const words = at === undefined ? t('overview.choose_none') : hourWords(hours[at]!)
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
        aria-valuenow={(at ?? last) + 1}
        aria-valuetext={words}
        onKeyDown={chooseByKey}
        onPointerMove={chooseByPointer}
        onPointerDown={chooseByPointer}
        onPointerLeave={event => event.pointerType === 'mouse' && choose(undefined)}
        onBlur={() => choose(undefined)}
      >
        {width > 0 && <Plot hours={hours} scale={scale} width={width} chosen={at} />}
      </div>
      <p class="reading small" aria-hidden="true">
        {words}
      </p>
    </>
  )
}

type Scale = ReturnType<typeof scaleOf>

/** Where the bars are. `start`: their left edge; `step`: the width of an hour; px. */
function scaleOf(hours: readonly Hour[], width: number, zoom: number) {
  const most = highest(Math.max(...hours.map(one => Math.max(one.received, one.sent))))
  const labels = [0, most / 2, most]
  const start = Math.max(...labels.map(value => number(value).length)) * 7 * zoom + 10
  const top = usualTop * zoom
  const plotHeight = height - top - hoursHeight * zoom
  const step = Math.max(0, (width - start) / hours.length)
  return {
    labels,
    plotHeight,
    start,
    step,
    top,
    zoom,
    y: (value: number) => top + plotHeight * (1 - value / most),
  }
}

/** The next of 2, 4, 6, 8, 10, 20, 40 …, so that its half is also a whole number. */
function highest(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)))
  return [2, 4, 6, 8, 10].map(times => times * power).find(round => round >= value) ?? value
}

interface PlotProps {
  hours: readonly Hour[]
  scale: Scale
  width: number
  chosen: number | undefined
}

const Plot = ({ hours, scale, width, chosen }: PlotProps) => (
  <svg width={width} height={height} aria-hidden="true" focusable="false">
    {scale.labels.map(value => (
      <g key={value} class="grid">
        <line
          x1={scale.start}
          x2={width}
          y1={Math.round(scale.y(value)) + 0.5}
          y2={Math.round(scale.y(value)) + 0.5}
        />
        <text x={scale.start - 8} y={scale.y(value) + 4} text-anchor="end">
          {Number.isInteger(value) ? number(value) : ''}
        </text>
      </g>
    ))}
    {hours.map((hour, index) => (
      <Bars
        key={hour.from}
        hour={hour}
        x={scale.start + index * scale.step}
        scale={scale}
        isChosen={index === chosen}
        isLast={(hours.length - index - 0.5) * scale.step < 20 * scale.zoom}
      />
    ))}
  </svg>
)

interface BarsProps {
  hour: Hour
  x: number
  scale: Scale
  isChosen: boolean
  /** Whether the bar is at the right edge, where a centred label would be cut. */
  isLast: boolean
}

function Bars({ hour, x, scale: { step, y, top, plotHeight, zoom }, isChosen, isLast }: BarsProps) {
  // A gap between hours, and none between the two bars of an hour, shows the pairs.
  const breadth = Math.max(2, Math.floor((step - Math.max(2, step * 0.25)) / 2))
  const from = Math.round(x + (step - breadth * 2) / 2)
  const bar = (value: number, offset: number, kind: string) => {
    if (value === 0) return null
    // A small value must still be visible.
    const tall = Math.max(2, y(0) - y(value))
    const rx = Math.min(2, breadth / 2)
    return <rect class={kind} x={from + offset} y={y(0) - tall} width={breadth} height={tall} rx={rx} />
  }
  return (
    <g>
      {isChosen && <rect class="chosen" x={x} y={top} width={step} height={plotHeight} rx={4} />}
      {bar(hour.received, 0, 'received')}
      {bar(hour.sent, breadth, 'sent')}
      {isLabelled(hour.from, step / zoom) && (
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
