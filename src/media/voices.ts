/** Makes WAV of the voice messages of users, which are SILK: hardly a program and no browser plays that. */
import { partCommand } from '../platform/packed.ts'
import { Permits } from '../platform/permits.ts'
import { partWords, runPart } from '../platform/process.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import { streamOnDemand } from '../platform/streams.ts'
import { checkSilk, maxSilkBytes, maxWavBytes } from './silk.ts'

/** A minute of voice takes a fraction of a second; a process that takes longer than this is ended. */
const patienceMs = 10_000
const maxDecodings = 2
/** Most bytes of WAV in memory that callers have not read yet. */
const maxHeldBytes = 64 * 1024 * 1024
const pieceBytes = 64 * 1024

/** The bytes of a voice message, and what they are. */
export interface Sound {
  readonly stream: ReadableStream<Uint8Array>
  readonly type: string
  readonly size?: number
  /** Whether it stayed SILK because no WAV could be made of it. */
  readonly isUndecoded?: boolean
}

export class Voices {
  readonly #runtime: Runtime
  readonly #permits = new Permits(maxDecodings)
  #heldBytes = 0

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /**
   * Reads a voice message, so that its size is known, and makes WAV of SILK. One that cannot be decoded comes
   * as it is, as does one that is much larger than any of WeChat's.
   *
   * @param id names the message in the log
   */
  async open(
    { stream, type }: Sound,
    { id, isOriginal, signal }: { id: string; isOriginal: boolean; signal: AbortSignal },
  ): Promise<Sound> {
    const { bytes, rest } = await readStart(stream, maxSilkBytes)
    const isDecoded = type === 'audio/silk' && !isOriginal
    if (!rest && isDecoded) {
      using signals = linkSignals(signal, this.#runtime.closing)
      try {
        const wav = await this.#decode(checkSilk(bytes), signals.signal)
        return { stream: this.#hold(wav), type: 'audio/wav', size: wav.length }
      } catch (error) {
        signals.signal.throwIfAborted()
        this.#runtime.log.warn('voice not decoded', { message_id: id, error: reasonOf(error) })
      }
    }
    const size = rest ? undefined : bytes.length
    return { stream: streamOf(bytes, { rest }), type, size, isUndecoded: isDecoded }
  }

  async #decode(silk: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    using _permit = await this.#permits.take(signal)
    if (this.#heldBytes > maxHeldBytes) throw new Error('too many voices are being read')
    return await runPart(partCommand(partWords.decodeVoice, import.meta.url), silk, {
      maxBytes: maxWavBytes,
      withinMs: patienceMs,
      signal,
    })
  }

  #hold(wav: Uint8Array): ReadableStream<Uint8Array> {
    this.#heldBytes += wav.length
    return streamOf(wav, {
      release: () => {
        this.#heldBytes -= wav.length
      },
    })
  }
}

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

/** Reads a stream to its end, or until it exceeds `maxBytes`; then `rest` has the remainder. */
async function readStart(stream: ReadableStream<Uint8Array>, maxBytes: number) {
  const rest = stream.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  while (size <= maxBytes) {
    const { done, value } = await rest.read()
    if (done) return { bytes: Buffer.concat(chunks) }
    chunks.push(value)
    size += value.length
  }
  return { bytes: Buffer.concat(chunks), rest }
}

interface StreamEnd {
  readonly rest?: ReadableStreamDefaultReader<Uint8Array>
  /** Called once, when all was read or nobody reads any more. */
  release?(): void
}

/** Streams bytes piece by piece, and then the rest of another stream. */
function streamOf(bytes: Uint8Array, { release, rest }: StreamEnd): ReadableStream<Uint8Array> {
  let at = 0
  return streamOnDemand({
    async pull(controller) {
      if (at < bytes.length) {
        controller.enqueue(bytes.subarray(at, at + pieceBytes))
        at += pieceBytes
        return
      }
      const next = await rest?.read()
      if (next?.value) return controller.enqueue(next.value)
      controller.close()
      release?.()
    },
    async cancel(reason) {
      release?.()
      await rest?.cancel(reason)
    },
  })
}
