/** Hostile voice messages cost a bounded time and memory, in every form of the program. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { compile } from '../../scripts/build/compile.ts'
import { bundle } from '../../scripts/bundle.ts'
import { buildPanel } from '../../scripts/panel.ts'
import { checkSilk, maxSilkBytes, maxWavBytes } from '../../src/media/silk.ts'
import { deno, denoEnv, denoRun } from '../support/deno.ts'
import { folderOfFile } from '../support/folder.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { listen, silkOf, speak } from '../support/voice.ts'

const folder = folderOfFile()
const source = join(import.meta.dir, '../../src')
/** Always the same noise. */
function noise(size: number): Uint8Array {
  let state = 1
  return Uint8Array.from({ length: size }, () => {
    state = (state * 1103515245 + 12345) % 2147483648
    return state >> 16
  })
}

const frames = (count: number, make: (nth: number) => Uint8Array) =>
  silkOf(Array.from({ length: count }, (_, nth) => make(nth)))
const random = noise(4_000_000)

/** Files that pass the check, so that the decoder gets them. */
const hostile: [string, Buffer][] = [
  ['ten minutes of frames of one byte', frames(30_000, () => new Uint8Array(1))],
  ['ten minutes of one frame and nothing', frames(30_000, nth => new Uint8Array(nth === 0 ? 9 : 0).fill(1))],
  ['ten minutes of noise', frames(30_000, nth => random.subarray(nth * 100, nth * 100 + 100))],
  ['the largest frames', frames(122, nth => random.subarray(nth, nth + 32_767))],
  ['ones', frames(30_000, () => new Uint8Array(30).fill(255))],
]

async function decode(command: readonly string[], file: Uint8Array) {
  const watch = stopwatch()
  const child = Bun.spawn([...command], {
    stdin: file,
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...process.env, ...denoEnv },
    timeout: 60_000,
  })
  // The system's own figure would be that of this process, from which the other one was split off.
  let kilobytes = 0
  const measuring = setInterval(() => {
    const path = `/proc/${child.pid}/status`
    const status = existsSync(path) ? readFileSync(path, 'utf8') : ''
    kilobytes = Math.max(kilobytes, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0))
  }, 20)
  const [wav, said, status] = await Promise.all([
    new Response(child.stdout).bytes(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  clearInterval(measuring)
  return { wav, said, status, ms: watch.ms, megabytes: kilobytes / 1000 }
}

await buildPanel(join(folder, 'panel'))
const binary = join(folder, 'svc')
await compile({ outfile: binary, panel: join(folder, 'panel') })
const script = join(folder, 'svc.mjs')
await bundle({ outfile: script, panel: join(folder, 'panel') })

describe.each([
  ['Bun', [process.execPath, join(source, 'media/decode-voice.ts')]],
  ['the binary', [binary, 'decode-voice']],
  ...(deno
    ? [
        ['Deno', denoRun(join(source, 'media/decode-voice.ts'), ['--allow-read', '--allow-env'])] as const,
        ['the script for Deno', denoRun(script).concat('decode-voice')] as const,
      ]
    : []),
])('decoding on %s', (name, command) => {
  test('a minute of voice', async () => {
    const { megabytes, ms, said, wav } = await decode(command, await speak(60))
    expect({ said, ...listen(wav) }).toEqual({ said: '', seconds: 60, hertz: expect.closeTo(440, -1) })
    console.info(`${name}: a minute in ${Math.round(ms)} ms, ${Math.round(megabytes)} MB`)
  })

  test.each(hostile)('%s', async (what, file) => {
    expect(file.length).toBeLessThanOrEqual(maxSilkBytes)
    const { megabytes, ms, status, wav } = await decode(command, checkSilk(file))
    console.info(`${name}: ${what}: ${Math.round(ms)} ms, ${Math.round(megabytes)} MB, ${wav.length} bytes`)
    expect([0, 1]).toContain(status!)
    expect(megabytes).toBeLessThan(350)
    if (status === 0) listen(wav)
    expect(wav.length).toBeLessThan(6 * maxWavBytes)
  })
})
