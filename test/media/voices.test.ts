/** Voice messages are sound that programs play, wherever svc gives their bytes. */
import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { createDirectCall } from '../../src/model/call.ts'
import { getMedia } from '../../src/operations/media.ts'
import { createMediaAnswer } from '../../src/server/media-answer.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { listen, silkOf, speak } from '../support/voice.ts'

const it = given(withGateway)
const call = () => ({ ...createDirectCall(), local: true })

/** A voice message, received. @returns its id */
async function said(t: TestGateway, bytes: Uint8Array): Promise<string> {
  const { message_id } = await t.sandbox.media('voice', new Blob([new Uint8Array(bytes)]))
  await t.until('stored', async () =>
    (await t.gateway.history.page({ limit: 9, offset: 0 })).messages.some(m => m.message_id === message_id),
  )
  return message_id
}

const open = (t: TestGateway, message_id: string, signal = new AbortController().signal) =>
  t.gateway.media.open({ message_id, item: 0 }, signal)

const get = async (t: TestGateway, input: object) =>
  createMediaAnswer(await getMedia.run(t.gateway, getMedia.parse({ item: 0, ...input }), call()))

it('saved and given as WAV, with its exact size; as SILK where that is asked for', async t => {
  const silk = await speak(2)
  const message_id = await said(t, silk)
  const saved = await t.gateway.media.download({ message_id, item: 0 }, call())
  expect(saved).toMatchObject({ file_name: `voice-${message_id}.wav`, content_type: 'audio/wav' })
  const file = await readFile(saved.path)
  expect(file.length).toBe(saved.size)
  expect(listen(file)).toEqual({ seconds: 2, hertz: expect.closeTo(440, -1) })

  const whole = await get(t, { message_id })
  expect([...new Headers(whole.headers)]).toEqual(
    expect.arrayContaining([
      ['content-type', 'audio/wav'],
      ['content-length', `${file.length}`],
      ['content-disposition', expect.stringMatching(/^inline; filename="voice-\d+\.wav"/)],
    ]),
  )
  expect(await whole.bytes()).toEqual(new Uint8Array(file))
  const part = await get(t, { message_id, range: 'bytes=90000-', if_range: whole.headers.get('etag') })
  expect([part.status, part.headers.get('content-range')]).toEqual([
    206,
    `bytes 90000-${file.length - 1}/${file.length}`,
  ])
  expect(await part.bytes()).toEqual(new Uint8Array(file.subarray(90_000)))

  const original = await get(t, { message_id, format: 'original', range: 'bytes=0-9' })
  expect([original.status, original.headers.get('content-range')]).toEqual([206, `bytes 0-9/${silk.length}`])
  expect(original.headers.get('content-type')).toBe('audio/silk')
  expect(original.headers.get('etag')).not.toBe(whole.headers.get('etag'))
  expect(await original.text()).toBe('\x02#!SILK_V3')
})

it('what is not SILK stays as it is', async t => {
  const message_id = await said(t, Buffer.from('#!AMR\nnot really'))
  const { content_type, file_name, size, stream } = await open(t, message_id)
  expect({ content_type, file_name, size }).toEqual({
    content_type: 'audio/amr',
    file_name: `voice-${message_id}.amr`,
    size: 16,
  })
  await stream.cancel()
})

describe('broken SILK', () => {
  it('a cut one gives its beginning', async t => {
    const silk = await speak(2)
    const { content_type, stream } = await open(t, await said(t, silk.subarray(0, silk.length / 2)))
    expect(content_type).toBe('audio/wav')
    const { hertz, seconds } = listen(await new Response(stream).bytes())
    expect(hertz).toBeCloseTo(440, -1)
    expect(seconds).toBeWithin(0.7, 1.1)
  })

  it('comes as it is, whole and without a tag, and the log says why', async t => {
    const zeros = Buffer.concat([silkOf([]), Buffer.alloc(200_000)])
    const message_id = await said(t, zeros)
    const answer = await get(t, { message_id, range: 'bytes=0-9' })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'audio/silk'])
    expect(answer.headers.has('etag')).toBe(false)
    expect((await answer.bytes()).length).toBe(zeros.length)
    const saved = await t.gateway.media.download({ message_id, item: 0 }, call())
    expect(saved).toMatchObject({ content_type: 'audio/silk', file_name: `voice-${message_id}.silk` })
    expect(
      t.lines.filter(line => line.includes('voice not decoded') && line.includes(message_id)),
    ).toHaveLength(2)
  })

  it('larger than any voice: as it is', async t => {
    const large = Buffer.concat([await speak(1), Buffer.alloc(6_000_000, 1)])
    const { content_type, size, stream } = await open(t, await said(t, large))
    expect([content_type, size]).toEqual(['audio/silk', undefined])
    expect((await new Response(stream).bytes()).length).toBe(large.length)
  })
})

it('many at once: all are decoded, and who leaves is not waited for', async t => {
  const ids = [await said(t, await speak(1, 440)), await said(t, await speak(1, 880))]
  const leave = new AbortController()
  const left = Array.from({ length: 5 }, (_, nth) => failure(open(t, ids[nth % 2]!, leave.signal)))
  const kept = Array.from({ length: 6 }, async (_, nth) => {
    const { stream } = await open(t, ids[nth % 2]!)
    return listen(await new Response(stream).bytes()).hertz
  })
  leave.abort(new Error('left'))
  for (const error of await Promise.all(left)) expect(error).toMatchObject({ message: 'left' })
  const heard = await Promise.all(kept)
  expect(heard.map(hertz => Math.round(hertz / 100))).toEqual([4, 9, 4, 9, 4, 9])
})

test('a service that stops ends what is being decoded', async () => {
  const t = await withGateway()
  const id = await said(t, silkOf(Array.from({ length: 30_000 }, () => new Uint8Array(20).fill(1))))
  const opening = failure(open(t, id))
  await t.until(
    'it is fetched',
    async () => (await (await fetch(`${t.sandbox.url}/phone/stats`)).json()).downloads > 0,
  )
  await t[Symbol.asyncDispose]()
  expect(await opening).toBeInstanceOf(Error)
})
