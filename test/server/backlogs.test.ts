/** What waits for readers of streams that do not read. */
import { expect, test } from 'bun:test'
import { Backlogs, createEventStream, type Outlet } from '../../src/server/event-stream.ts'
import { failure } from '../support/failure.ts'

test('where more waits than there is room for, who has read nothing for longest is cut off, and nobody who has nothing to read', () => {
  const cut: string[] = []
  const all = new Backlogs(100)
  const [a, b, c, idle] = ['a', 'b', 'c', 'idle'].map(name => all.open(() => cut.push(name)))
  a!.update(40, false)
  b!.update(40, false)
  idle!.update(0, false)
  // It reads on, so the other one has stood still for longer.
  a!.update(30, true)
  c!.update(50, false)
  expect(cut).toEqual(['b'])
  b!.update(1000, false)
  c!.update(60, false)
  expect(cut).toEqual(['b'])
  a!.end()
  c!.update(100, false)
  expect(cut).toEqual(['b'])
  c!.update(101, false)
  expect(cut).toEqual(['b', 'c'])
})

test('a reader that is cut off hears of it, one that reads goes on', async () => {
  const outlets: Outlet[] = []
  const gone: number[] = []
  const open = (nth: number) =>
    createEventStream(8 * 1024 * 1024, {
      start: outlet => void outlets.push(outlet),
      cancel: () => void gone.push(nth),
    }).body!.getReader()
  const readers = Array.from({ length: 20 }, (_, nth) => open(nth))
  const chunk = new Uint8Array(1024 * 1024)
  for (let round = 0; round < 5; round++)
    for (const [nth, outlet] of outlets.entries()) {
      if (gone.includes(nth)) continue
      outlet.enqueue(chunk)
      if (nth === 0) await readers[0]!.read()
    }
  // 19 of them would have 95 MB.
  expect(gone.length).toBeGreaterThan(5)
  expect(gone).not.toContain(0)
  expect(
    outlets.filter((_, nth) => !gone.includes(nth)).reduce((sum, one) => sum + one.unreadBytes, 0),
  ).toBeLessThan(65 * 1024 * 1024)
  expect(await failure(readers[gone[0]!]!.read())).toBeInstanceOf(Error)
  for (const [nth, outlet] of outlets.entries()) if (!gone.includes(nth)) outlet.close()
})
