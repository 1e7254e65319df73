/** What earlier releases wrote: this build opens it, finds everything, and goes on with it. */
import { expect, test } from 'bun:test'
import { failure } from '../support/failure.ts'
import { startService } from '../support/service.ts'
import { fixtures, unpacked } from './fixtures.ts'
import { live, stillAll } from './life.ts'

test.each(fixtures)('a data directory of %s is all there, and goes on', async name => {
  await using fixture = await unpacked(name)
  const { dir, left } = fixture
  await using service = await startService({ dir, args: ['--pace', 'off'] })
  await stillAll(service, left, dir)
  expect(await service.kill('SIGTERM')).toBe(0)
})

test('the comparison finds what is missing', async () => {
  await using service = await startService({ args: ['--pace', 'off'] })
  const left = await live(service)
  const { dir } = service
  const [newest, ...others] = left.messages
  const fewer = stillAll(service, { ...left, messages: others }, dir)
  expect((await failure(fewer)).message).toContain('is not as expected')
  const other = { ...newest, text: 'something else' }
  const changed = stillAll(service, { ...left, messages: [other, ...others] }, dir)
  expect((await failure(changed)).message).toContain('0.text is not as expected')
})

test('what this build leaves after kill -9, it finds as well', async () => {
  await using first = await startService({ args: ['--pace', 'off'] })
  const { dir } = first
  const left = await live(first)
  await first.kill('SIGKILL')
  await using second = await startService({ dir, args: ['--pace', 'off'] })
  await stillAll(second, left, dir)
})
