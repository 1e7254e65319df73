/**
 * Metrics in Prometheus' text format 0.0.4: some are counted here, others are looked up on each read.
 *
 * Own code, because it is shorter than what a library would need around it. prom-client 15.1.3 brings the
 * OpenTelemetry API and takes 55 ms to load, and on Bun its process metrics are zero or "Nan".
 */
import process from 'node:process'

export type Labels = Readonly<Record<string, string>>

interface Sample {
  /** Only for a histogram: `_bucket`, `_sum`, `_count`. */
  suffix?: string
  labels: Labels
  value: number
}

/** One metric with its current values. */
export interface Family {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  samples(): Iterable<Sample>
}

/** The values of one metric, one per combination of label values. There must be few combinations. */
abstract class Series<T> implements Family {
  abstract readonly type: Family['type']
  readonly name: string
  readonly help: string
  protected readonly known = new Map<string, { labels: Labels; value: T }>()
  readonly #names: readonly string[]

  constructor(name: string, help: string, labels: readonly string[]) {
    this.name = name
    this.help = help
    this.#names = labels
  }

  protected entryOf(values: readonly string[], first: () => T): { labels: Labels; value: T } {
    const key = values.join('\n')
    const known = this.known.get(key)
    if (known) return known
    const labels = Object.fromEntries(this.#names.map((name, nth) => [name, values[nth] ?? '']))
    const entry = { labels, value: first() }
    this.known.set(key, entry)
    return entry
  }

  abstract samples(): Iterable<Sample>
}

export class MetricCounter extends Series<number> {
  readonly type = 'counter'

  add(...values: string[]): void {
    this.addCount(1, ...values)
  }

  /** 0 shows the counter before anything is counted: Prometheus sees no increase up to the first value of a series. */
  addCount(count: number, ...values: string[]): void {
    this.entryOf(values, () => 0).value += count
  }

  samples(): Iterable<Sample> {
    return this.known.values()
  }
}

interface Counts {
  /** One more entry than there are bounds: the last counts values beyond all bounds. */
  buckets: number[]
  sum: number
}

/** Upper bounds of the buckets, in seconds. A `recv` may wait for 300. */
const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** How long something took, in seconds. */
export class Durations extends Series<Counts> {
  readonly type = 'histogram'

  observe(seconds: number, ...values: string[]): void {
    const { value } = this.entryOf(values, () => ({ buckets: new Array(bounds.length + 1).fill(0), sum: 0 }))
    const within = bounds.findIndex(bound => seconds <= bound)
    const nth = within < 0 ? bounds.length : within
    value.buckets[nth] = (value.buckets[nth] ?? 0) + 1
    value.sum += seconds
  }

  *samples(): Iterable<Sample> {
    for (const { labels, value } of this.known.values()) {
      let count = 0
      for (const [nth, more] of value.buckets.entries()) {
        count += more
        yield { suffix: '_bucket', labels: { ...labels, le: String(bounds[nth] ?? '+Inf') }, value: count }
      }
      yield { suffix: '_sum', labels, value: value.sum }
      yield { suffix: '_count', labels, value: count }
    }
  }
}

/** Makes a metric from values that are looked up on each read. */
export const createFamily = (
  name: string,
  help: string,
  values: Iterable<readonly [Labels, number]>,
  type: 'gauge' | 'counter' = 'gauge',
): Family => ({
  name,
  type,
  help,
  samples: () => Array.from(values, ([labels, value]) => ({ labels, value })),
})

/** Returns memory and processor time of this process, under the names that all exporters use. */
export function listProcessMetrics(): Family[] {
  const { rss } = process.memoryUsage()
  const { system, user } = process.cpuUsage()
  return [
    createFamily('process_resident_memory_bytes', 'Resident memory size in bytes.', [[{}, rss]]),
    createFamily(
      'process_cpu_seconds_total',
      'Total user and system CPU time spent in seconds.',
      [[{}, (system + user) / 1e6]],
      'counter',
    ),
    createFamily('process_start_time_seconds', 'Start time of the process since the Unix epoch in seconds.', [
      [{}, Math.round(performance.timeOrigin) / 1000],
    ]),
  ]
}

export const metricsType = 'text/plain; version=0.0.4; charset=utf-8'

/** Formats the metrics. */
export const formatMetrics = (families: readonly Family[]): string =>
  families
    .map(family => {
      const { name, type, help } = family
      const samples = Array.from(
        family.samples(),
        ({ suffix = '', labels, value }) => `${name}${suffix}${formatLabels(labels)} ${value}\n`,
      )
      return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${samples.join('')}`
    })
    .join('')

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

const escapeLabel = (text: string): string =>
  text.replace(/[\\"\n]/g, character => (character === '\n' ? '\\n' : `\\${character}`))
