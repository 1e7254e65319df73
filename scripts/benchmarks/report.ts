/** The result of a benchmark, its statistics, and the table. */

export interface Row {
  name: string
  what: string
  ours: string
  baseline: string
  result: string
  goal: string
  met: boolean
  /** The smallest and the largest value of the rounds. */
  spread: string
}

export interface Benchmark {
  name: string
  /** What is compared with what, in a few sentences; printed under the table. */
  compares: string
  run(options: BenchOptions): Promise<Row[]>
}

interface BenchOptions {
  quick: boolean
  /** How many rounds of baseline and svc, in alternation. */
  rounds: number
  /** Whether to leave the large store in the temporary folder for the next run. */
  keep: boolean
  note(text: string): void
}

/** Returns the value below which the share `p` (0–1) of the values lies. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? Number.NaN
}

export const median = (values: readonly number[]): number => percentile(values, 0.5)

/** The 95 % interval of the median, by the ranks of the values: nothing is assumed of how they are spread. */
export function medianInterval(values: readonly number[]): [number, number] {
  const sorted = [...values].sort((a, b) => a - b)
  const reach = 0.98 * Math.sqrt(sorted.length)
  const at = (rank: number) => sorted[Math.min(sorted.length - 1, Math.max(0, rank))] ?? Number.NaN
  return [at(Math.floor(sorted.length / 2 - reach)), at(Math.ceil(sorted.length / 2 + reach))]
}

export interface Paired {
  ours: number[]
  baseline: number[]
}

/**
 * Measures baseline and svc alternately, `rounds` times each, so that a slow moment of the machine slows
 * both.
 */
export async function alternate(
  rounds: number,
  baseline: (round: number) => Promise<number>,
  ours: (round: number) => Promise<number>,
): Promise<Paired> {
  const found: Paired = { ours: [], baseline: [] }
  for (let round = 0; round < rounds; round++) {
    found.baseline.push(await baseline(round))
    found.ours.push(await ours(round))
  }
  return found
}

interface About {
  name: string
  what: string
  unit: string
  goal: number
  digits?: number
}

/**
 * Returns the row of a speed where more is better: the ratio of the medians, with the ratio of each round as
 * the spread.
 */
export const createSpeedRow = (paired: Paired, about: About): Row =>
  createRatioRow(paired, about, { sign: '≥', isMet: ratio => ratio >= about.goal })

/** The same for a cost, where less is better. */
export const createCostRow = (paired: Paired, about: About): Row =>
  createRatioRow(paired, about, { sign: '≤', isMet: ratio => ratio <= about.goal })

function createRatioRow(
  paired: Paired,
  { name, what, unit, goal, digits = 0 }: About,
  { sign, isMet }: { sign: string; isMet(ratio: number): boolean },
): Row {
  const ratio = median(paired.ours) / median(paired.baseline)
  const ratios = paired.ours.map((value, i) => value / (paired.baseline[i] ?? Number.NaN))
  return {
    name,
    what,
    ours: `${formatNumber(median(paired.ours), digits)} ${unit}`,
    baseline: `${formatNumber(median(paired.baseline), digits)} ${unit}`,
    result: ratio.toFixed(2),
    goal: `${sign} ${goal}`,
    met: isMet(ratio),
    spread: formatSpread(ratios, 2),
  }
}

export const formatSpread = (values: readonly number[], digits = 1): string =>
  `${Math.min(...values).toFixed(digits)} … ${Math.max(...values).toFixed(digits)} (${values.length})`

export const formatNumber = (value: number, digits = 0): string =>
  value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })

export const toMib = (bytes: number): number => bytes / 1024 ** 2

export function tableOf(rows: readonly Row[]): string {
  const cells = [
    ['benchmark', 'what', 'ours', 'baseline', 'result', 'goal', '', 'spread (rounds)'],
    ...rows.map(row => [
      row.name,
      row.what,
      row.ours,
      row.baseline,
      row.result,
      row.goal,
      row.met ? 'ok' : 'MISSED',
      row.spread,
    ]),
  ]
  const widths = cells[0]!.map((_, column) => Math.max(...cells.map(line => Bun.stringWidth(line[column]!))))
  const line = (texts: string[]) =>
    `| ${texts.map((text, i) => text + ' '.repeat(widths[i]! - Bun.stringWidth(text))).join(' | ')} |`
  const [head, ...body] = cells
  return [line(head!), `|${widths.map(width => '-'.repeat(width + 2)).join('|')}|`, ...body.map(line)].join(
    '\n',
  )
}
