/**
 * SILK, the form of WeChat's voice messages (protocol notes 4.4), and WAV. A SILK file is its magic and then
 * frames: two bytes of length, and the frame. A frame is 20 ms of sound however short it is, so 2 MB of zeros
 * would be five hours.
 */
import { Buffer } from 'node:buffer'

/** Samples per second of the sound that is made of a voice message. */
export const sampleRate = 24_000
const bytesPerSecond = sampleRate * 2

/** A voice message of WeChat has at most a minute. */
const maxSeconds = 600
const framesPerSecond = 50
/** Ten minutes in SILK's highest quality have 3 MB. */
export const maxSilkBytes = 4 * 1024 * 1024
/** Most bytes of a voice message as WAV. */
export const maxWavBytes: number = maxSeconds * bytesPerSecond + 44

const magic = Buffer.from('#!SILK_V3')
/** WeChat writes this byte before the magic, and the decoder wants it. */
const wechatMark = Buffer.from([2])

/**
 * Returns the file as the decoder wants it, with whole frames only.
 *
 * @throws Error that says what is wrong with the file
 */
export function checkSilk(file: Uint8Array): Uint8Array {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  const start = bytes.subarray(0, 16).indexOf(magic)
  if (start < 0) throw new Error('it does not begin as SILK')
  const first = start + magic.length
  let at = first
  let frames = 0
  let isSilent = true
  while (at + 2 <= bytes.length) {
    const length = bytes.readInt16LE(at)
    // A negative length ends the file; the last frame may be cut.
    if (length < 0 || at + 2 + length > bytes.length) break
    at += 2 + length
    frames += 1
    isSilent &&= length === 0
    if (frames > maxSeconds * framesPerSecond) throw new Error('it is longer than ten minutes')
  }
  if (isSilent) throw new Error('it has no sound')
  return Buffer.concat([wechatMark, bytes.subarray(start, at)])
}

/** Returns the header of a WAV file: one channel of 16-bit samples. */
export function createWavHeader(soundBytes: number): Uint8Array {
  const header = Buffer.alloc(44)
  header.write('RIFF')
  header.writeUInt32LE(36 + soundBytes, 4)
  header.write('WAVEfmt ', 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRate, 24)
  header.writeUInt32LE(bytesPerSecond, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36)
  header.writeUInt32LE(soundBytes, 40)
  return header
}
