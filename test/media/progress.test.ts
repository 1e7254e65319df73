/** Call.progress: how far an upload or download is, for the doors that can show it. */
import { expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { paddedSizeOf } from '../../src/ilink/crypto.ts'
import { createDirectCall, type Progress } from '../../src/model/call.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

const size = 3_000_001

async function withFile(switches = {}): Promise<TestGateway> {
  const t = await withGateway({ switches })
  await t.sandbox.say('hi')
  await t.receive(1)
  await mkdir(t.mediaRoot, { recursive: true })
  await writeFile(join(t.mediaRoot, '猫.bin'), randomBytes(size))
  return t
}

/** Rises from 0 to the end, never beyond, and in more than one step; a host is first tried with the method it may not take. */
function expectWhole(all: readonly Progress[], what: string, total: number) {
  const steps = all.slice(all.findLastIndex(step => step.done === 0))
  expect(steps[0]).toEqual({ what, done: 0, total })
  expect(steps.at(-1)).toEqual({ what, done: total, total })
  expect(steps.length).toBeGreaterThan(3)
  for (const [nth, step] of steps.entries()) {
    expect(step).toMatchObject({ what, total })
    if (nth > 0) expect(step.done).toBeGreaterThan(steps[nth - 1]!.done)
  }
}

test('an upload tells of every block of what goes over the network, each file under its name', async () => {
  await using t = await withFile()
  const steps: Progress[] = []
  await t.send(
    {
      media: [
        { kind: 'file', path: '猫.bin' },
        { kind: 'file', path: '猫.bin', file_name: 'second.bin' },
      ],
    },
    { local: false, progress: step => void steps.push(step) },
  )
  const second = steps.findIndex(step => step.what === 'upload second.bin')
  expectWhole(steps.slice(0, second), 'upload 猫.bin', paddedSizeOf(size))
  expectWhole(steps.slice(second), 'upload second.bin', paddedSizeOf(size))
})

test('an upload that is tried again begins at 0 again', async () => {
  await using t = await withFile({ upload_method: 'put' })
  await t.sandbox.fail('upload', '500', { times: 1 })
  const steps: Progress[] = []
  const sent = t.send(
    { media: [{ kind: 'file', path: '猫.bin' }] },
    { local: false, progress: step => void steps.push(step) },
  )
  await t.until('the second try', () => {
    t.clock.advance(4000)
    return steps.filter(step => step.done === 0).length === 2
  })
  expect((await sent).success).toBe(true)
  expect(steps.at(-1)?.done).toBe(paddedSizeOf(size))
})

test('a download tells of the bytes that have come', async () => {
  await using t = await withFile()
  await t.sandbox.media('file', randomBytes(size), { name: 'film.mp4' })
  const [message] = await t.receive(1)
  const steps: Progress[] = []
  const saved = await t.gateway.media.download(
    { message_id: message!.message_id, item: 0 },
    { ...createDirectCall(), progress: step => void steps.push(step) },
  )
  expect(saved.size).toBe(size)
  expectWhole(steps, 'download film.mp4', size)
})
