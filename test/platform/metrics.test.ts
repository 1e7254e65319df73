import { expect, test } from 'bun:test'
import { createFamily, Durations, formatMetrics, MetricCounter } from '../../src/platform/metrics.ts'

test('a counter has a line for each set of labels, and what they hold is escaped', () => {
  const counter = new MetricCounter('a_total', 'What is counted.', ['who', 'how'])
  counter.add('x', 'y')
  counter.add('x', 'y')
  counter.add('"\\\n', '')
  expect(formatMetrics([counter])).toBe(
    '# HELP a_total What is counted.\n# TYPE a_total counter\n' +
      'a_total{who="x",how="y"} 2\na_total{who="\\"\\\\\\n",how=""} 1\n',
  )
})

test('a duration counts in every bucket that is not below it', () => {
  const durations = new Durations('b_seconds', 'How long.', ['route'])
  for (const seconds of [0.001, 0.002, 400]) durations.observe(seconds, '/x')
  const lines = formatMetrics([durations]).split('\n')
  expect(lines).toContain('b_seconds_bucket{route="/x",le="0.001"} 1')
  expect(lines).toContain('b_seconds_bucket{route="/x",le="0.0025"} 2')
  expect(lines).toContain('b_seconds_bucket{route="/x",le="300"} 2')
  expect(lines).toContain('b_seconds_bucket{route="/x",le="+Inf"} 3')
  expect(lines).toContain('b_seconds_sum{route="/x"} 400.003')
  expect(lines).toContain('b_seconds_count{route="/x"} 3')
})

test('a gauge without labels has no braces', () => {
  expect(formatMetrics([createFamily('c', 'x', [[{}, 1.5]])])).toContain('\nc 1.5\n')
})
