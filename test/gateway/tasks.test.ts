import { expect, test } from 'bun:test'
import { changeIn, withGateway } from '../support/gateway.ts'

test('a task that fails makes the health degraded, by its name alone, and the others go on', async () => {
  await using t = await withGateway()
  await t.gateway.start()
  expect((await t.gateway.health()).failing_tasks).toBeUndefined()
  await changeIn(t.dir, 'ALTER TABLE topic RENAME TO topic_away')
  const wrong = async () => (await t.gateway.health()).failing_tasks?.includes('topics')
  await t.until('it is told', async () => {
    t.clock.advance(1000)
    return await wrong()
  })
  const health = await t.gateway.health()
  expect(health).toMatchObject({ status: 'degraded', store: 'ok', failing_tasks: ['topics'] })
  expect(JSON.stringify(health)).not.toContain('no such table')
  const metrics = await t.gateway.metrics.text()
  const metric = (name: string, task: string) =>
    Number(new RegExp(`^${name}\\{task="${task}"\\} (\\S+)$`, 'm').exec(metrics)?.[1])
  expect(metric('svc_task_failures_total', 'topics')).toBeGreaterThan(5)
  expect(metric('svc_task_last_success_age_seconds', 'topics')).toBeGreaterThanOrEqual(10)
  expect(metric('svc_task_failures_total', 'send_ends')).toBe(0)
  expect(metric('svc_task_last_success_age_seconds', 'send_ends')).toBeLessThan(10)
  await changeIn(t.dir, 'ALTER TABLE topic_away RENAME TO topic')
  await t.until('it works again', async () => {
    t.clock.advance(1000)
    return !(await wrong())
  })
})
