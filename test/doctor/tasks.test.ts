import { expect, test } from 'bun:test'
import { noteFailingTasks } from '../../src/cli/listening.ts'
import { readStatus } from '../../src/inspect/status-report.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { testClock } from '../support/clock.ts'
import { until } from '../support/until.ts'
import { withWard } from './support.ts'

test('status and doctor have the reasons, which the process notes for others of its machine', async () => {
  await using ward = await withWard()
  const { dir } = ward
  const clock = testClock({ runs: false })
  const tasks = new Tasks(clock)
  const ending = new AbortController()
  const broken = { value: true }
  const more = { log: silentLog, signal: ending.signal, everyMs: 1000, failure: 'not swept' }
  tasks.repeat({ ...more, name: 'sweep' }, () => {
    if (broken.value) throw new Error('the sweep is broken')
  })
  const noting = noteFailingTasks(dir, tasks, silentLog, ending.signal)
  const status = () => readStatus({ basePath: dir, version: '1' })
  const passes = (what: string, isSo: (count: number) => boolean) =>
    until(what, 10_000, async () => {
      clock.wake(10_000)
      return isSo((await status()).failing_tasks?.length ?? 0)
    })
  await passes('it is noted', count => count === 1)
  expect((await status()).failing_tasks).toMatchObject([{ name: 'sweep', error: 'the sweep is broken' }])
  expect((await ward.look()).of('service/task')[0]).toMatchObject({
    severity: 'warning',
    what: expect.stringContaining('the sweep is broken'),
  })
  broken.value = false
  await passes('it is gone', count => count === 0)
  ending.abort()
  await noting.done
})
