import { expect, test } from 'bun:test'
import { SvcError } from '../../src/model/error.ts'
import { changeApart, doneApart, RowsFailedError, settingAside } from '../../src/platform/apart.ts'
import { createLog } from '../../src/platform/log.ts'
import { type TaskOptions, Tasks } from '../../src/platform/tasks.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import { until } from '../support/until.ts'

function setUp() {
  const clock = testClock({ runs: false })
  const tasks = new Tasks(clock)
  const lines: string[] = []
  const log = createLog('DEBUG', line => lines.push(line))
  const ending = new AbortController()
  const options: TaskOptions = {
    name: 'sweep',
    everyMs: 1000,
    failure: 'not swept',
    log,
    signal: ending.signal,
  }
  const one = () => tasks.list()[0]!
  /** Lets time pass until there was one more run. */
  const again = async (count: () => number) => {
    const before = count()
    await until('a run', 10_000, () => count() > before || clock.wake(60_000))
    // What ends the run ends in the same turn.
    await new Promise(resolve => setTimeout(resolve))
  }
  return { clock, tasks, lines, ending, options, one, again }
}

test('a task tells its interval, its last success, and why it fails since when', async () => {
  const { again, clock, ending, lines, one, options, tasks } = setUp()
  let [runs, error]: [number, Error | undefined] = [0, undefined]
  const repeated = tasks.repeat(options, () => {
    runs++
    if (error) throw error
  })
  await again(() => runs)
  expect(one()).toMatchObject({ name: 'sweep', every_ms: 1000, failures: 0, success_age_ms: 0 })
  error = new SvcError('store_unavailable', 'the disk is full', { hint: 'Free some space.' })
  const since = clock.now() + 1000
  await again(() => runs)
  // Once is no trouble yet.
  expect(one()).toMatchObject({ failures: 1, success_age_ms: 1000 })
  expect(tasks.listFailing()).toEqual([])
  for (let count = 0; count < 12; count++) await again(() => runs)
  expect(tasks.listFailing()).toEqual([
    { name: 'sweep', since, error: 'the disk is full', hint: 'Free some space.' },
  ])
  expect(lines.filter(line => line.includes('not swept'))).toHaveLength(1)
  clock.advance(3_600_000)
  await again(() => runs)
  expect(lines.filter(line => line.includes('not swept'))).toHaveLength(2)
  error = undefined
  await again(() => runs)
  expect(tasks.listFailing()).toEqual([])
  expect(one().success_age_ms).toBe(0)
  ending.abort()
  await repeated.done
  expect(tasks.list()).toEqual([])
})

test('what is set aside keeps the task failing until a run goes through without it', async () => {
  const { again, ending, one, options, tasks } = setUp()
  let runs = 0
  let bad = ['topic home', 'topic away']
  const repeated = tasks.repeat(options, setAside => {
    runs++
    setAside(...bad.map(row => ({ row, error: new Error('broken') })))
  })
  for (let count = 0; count < 15; count++) await again(() => runs)
  expect(tasks.listFailing()).toMatchObject([{ error: 'topic home: broken' }])
  bad = ['topic away']
  await again(() => runs)
  expect(tasks.listFailing()).toMatchObject([{ error: 'topic away: broken' }])
  bad = []
  await again(() => runs)
  expect([tasks.listFailing(), one().failures]).toEqual([[], 33])
  ending.abort()
  await repeated.done
})

test('a run that does not end is trouble too, and the end of svc is none', async () => {
  const { clock, ending, one, options, tasks } = setUp()
  const { promise, reject } = Promise.withResolvers<void>()
  const repeated = tasks.repeat(options, () => promise)
  const since = clock.now()
  clock.advance(3_600_000)
  expect(tasks.listFailing()).toMatchObject([{ name: 'sweep', since }])
  ending.abort()
  const { failures } = one()
  reject(new Error('shutting down'))
  await repeated.done
  expect(failures).toBe(0)
})

test('a nudge ends the wait, and comes not too early for a run under way', async () => {
  const { ending, options, tasks } = setUp()
  let [runs, gate] = [0, Promise.withResolvers<void>()]
  const repeated = tasks.repeat({ ...options, everyMs: 1e9 }, async () => {
    runs++
    await gate.promise
  })
  repeated.nudge()
  gate.resolve()
  await until('a second run', 10_000, () => runs === 2)
  gate = Promise.withResolvers()
  gate.resolve()
  await new Promise(resolve => setTimeout(resolve))
  expect(runs).toBe(2)
  repeated.nudge()
  await until('a third run', 10_000, () => runs === 3)
  ending.abort()
  await repeated.done
})

test('rows are changed together, and apart if that fails; a store that is away is no row’s fault', async () => {
  const changed: number[] = []
  const change = async (rows: readonly number[]) => {
    if (rows.includes(3)) throw new Error('no')
    changed.push(...rows)
  }
  const failures = await changeApart([1, 2, 3, 4], id => `row ${id}`, change)
  expect([changed, failures]).toEqual([[1, 2, 4], [{ row: 'row 3', error: new Error('no') }]])
  const error = await failure(Promise.resolve().then(() => doneApart(failures, 'the rest')))
  expect(error).toBeInstanceOf(RowsFailedError)
  const aside: unknown[] = []
  expect(await settingAside((...all) => aside.push(...all), Promise.reject<string>(error))).toBe('the rest')
  expect(aside).toEqual([...failures])
  let calls = 0
  const away = async () => {
    calls++
    throw new SvcError('store_unavailable', 'away')
  }
  expect(await failure(changeApart([1, 2, 3], String, away))).toMatchObject({ code: 'store_unavailable' })
  expect(calls).toBe(1)
})
