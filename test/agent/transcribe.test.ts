/** The command of --transcribe, good and bad ones. */
import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { transcribe } from '../../src/agent/transcribe.ts'
import { processState } from '../../src/platform/other-process.ts'
import { codeOf, failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

const never = new AbortController().signal

test('gets the path as last argument, and its output is the transcript', async () => {
  const folder = folderOfTest()
  const path = join(folder, 'a voice; rm $HOME.wav')
  writeFileSync(path, 'hello\u001b[1m there\u001b[0m\n\n')
  expect(await transcribe('cat', path, { folder, signal: never })).toBe('hello there')
  expect(await transcribe('sed -e s/hello/bye/', path, { folder, signal: never })).toBe('bye there')
})

test('its environment has nothing of svc', async () => {
  process.env.SVC_TOKEN = 'secret of svc'
  try {
    const folder = folderOfTest()
    expect(await transcribe('env; true', '/nothing', { folder, signal: never })).not.toContain(
      'secret of svc',
    )
  } finally {
    delete process.env.SVC_TOKEN
  }
})

test('a command that fails, or is absent', async () => {
  const asked = { folder: folderOfTest(), signal: never }
  expect(await codeOf(transcribe('echo no microphone >&2; false', '/a.wav', asked))).toBe('upstream_error')
  expect(await failure(transcribe('no-such-program-at-all', '/a.wav', asked))).toMatchObject({
    message: expect.stringContaining('not found'),
  })
})

test('endless output is cut', async () => {
  const asked = { folder: folderOfTest(), signal: never }
  const text = await transcribe('head -c 30000000 /dev/zero | tr "\\0" x; true', '/a.wav', asked)
  expect(text.length).toBeLessThanOrEqual(64 * 1024)
})

test('who does not wait any longer ends it', async () => {
  const folder = folderOfTest()
  const stop = new AbortController()
  const said = failure(
    transcribe('echo $$ > pid; sleep 100; true', '/a.wav', { folder, signal: stop.signal }),
  )
  const pid = await until('it runs', 10_000, () => {
    try {
      return Number(readFileSync(join(folder, 'pid'), 'utf8')) || undefined
    } catch {
      return undefined
    }
  })
  const watch = stopwatch()
  stop.abort(new Error('stopped'))
  expect(await said).toMatchObject({ message: 'stopped' })
  expect(watch.ms).toBeLessThan(5000)
  await until('it has ended', 5000, async () => (await processState(pid)) === 'gone')
})
