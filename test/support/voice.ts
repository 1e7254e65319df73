/** Voice messages as WeChat sends them, and what is heard in a WAV file. */
import { encode } from 'silk-wasm'

const rate = 24_000

/** Encodes a tone as SILK. */
export async function speak(seconds: number, hertz = 440): Promise<Buffer> {
  const samples = Int16Array.from({ length: seconds * rate }, (_, at) =>
    Math.round(12_000 * Math.sin((2 * Math.PI * hertz * at) / rate)),
  )
  return Buffer.from((await encode(samples.buffer, rate)).data)
}

/** Makes a SILK file of frames. */
export const silkOf = (frames: readonly Uint8Array[], magic = '\x02#!SILK_V3'): Buffer =>
  Buffer.concat([
    Buffer.from(magic),
    ...frames.flatMap(frame => {
      const length = Buffer.alloc(2)
      length.writeUInt16LE(frame.length)
      return [length, frame]
    }),
  ])

/** Returns the length of a WAV file, and the tone in its middle. */
export function listen(wav: Uint8Array): { seconds: number; hertz: number } {
  const bytes = Buffer.from(wav)
  const format = [bytes.toString('latin1', 0, 4), bytes.readUInt32LE(4), bytes.toString('latin1', 8, 16)]
  const expected = ['RIFF', bytes.length - 8, 'WAVEfmt ']
  const numbers = [
    bytes.readUInt16LE(20),
    bytes.readUInt16LE(22),
    bytes.readUInt32LE(24),
    bytes.readUInt16LE(34),
  ]
  if (
    `${format}` !== `${expected}` ||
    `${numbers}` !== `1,1,${rate},16` ||
    bytes.readUInt32LE(40) !== bytes.length - 44
  )
    throw new Error(`no WAV: ${format} ${numbers}`)
  const count = (bytes.length - 44) / 2
  const sample = (at: number) => bytes.readInt16LE(44 + at * 2)
  const [from, to] = [Math.floor(count / 4), Math.floor((count * 3) / 4)]
  let crossings = 0
  for (let at = from; at < to; at++) if (sample(at) < 0 && sample(at + 1) >= 0) crossings++
  return { seconds: count / rate, hertz: (crossings * rate) / (to - from) }
}
