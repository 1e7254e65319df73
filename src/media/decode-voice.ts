/**
 * A process of its own, which reads one SILK file from stdin and writes it to stdout as WAV. The decoder is
 * WebAssembly: it holds its thread, and a broken file can make it throw anything.
 */
import process from 'node:process'
import { decode } from 'silk-wasm'
import { createWavHeader, sampleRate } from './silk.ts'

const chunks: Uint8Array[] = []
for await (const chunk of process.stdin) chunks.push(chunk)
try {
  const { data } = await decode(Buffer.concat(chunks), sampleRate)
  process.stdout.write(createWavHeader(data.byteLength))
  process.stdout.write(data)
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
  process.exitCode = 1
}
