/** Files of messages that wait in the outbox. They outlive the process that queued them. */

import { streamOf } from '../ilink/progress.ts'
import { badArgument } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { createByteCounter } from '../platform/memory.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { StagedFile } from '../send/media-files.ts'
import type { EntrySight, KeptFile } from '../storage/outbox.ts'
import { sniffType, typeOfName } from './content-type.ts'
import type { OpenedMedia } from './downloads.ts'
import type { MediaPorts } from './ports.ts'

export class KeptFiles extends RoomPart<Pick<MediaPorts, 'store' | 'places'>> {
  /**
   * Copies a staged file to the store of queued files.
   *
   * @throws SvcError `store_unavailable` (disk); the signal's reason
   */
  async keep(file: StagedFile, signal: AbortSignal): Promise<KeptFile> {
    const name = `${crypto.randomUUID()}.queued`
    const { file_name, size, md5 } = file
    const body = streamOf(copyBlocks(file.read()), () => {})
    const placed = await this.ports.places.queued.put(name, body, { signal, size })
    if (placed.md5 === md5) return { name, file_name, size, md5 }
    await this.discard([{ name }])
    throw badArgument('media', 'the file changed while it was read')
  }

  /**
   * Opens a kept file to send it.
   *
   * @throws SvcError `invalid_arguments` if it is gone or was replaced
   */
  async open({ name, file_name, size, md5 }: KeptFile, kind: MediaKind): Promise<StagedFile> {
    const file = await this.ports.places.queued.open(name)
    if (file?.size === size) return { ...file, kind, file_name, md5 }
    await file?.release()
    throw badArgument('media', 'the file is not the one that was queued')
  }

  /**
   * Opens the file of a waiting message, for the person who approves it.
   *
   * @param message row id of the message
   * @returns undefined if the message has no file
   */
  async openForApproval(
    message: number,
    signal: AbortSignal,
    sight?: EntrySight,
  ): Promise<OpenedMedia | undefined> {
    const { places, store } = this.ports
    const kept = await store.outbox.fileOf(message, sight)
    const fromName = kept && (await typeOfName(kept.file_name))
    const file = kept && (await places.queued.open(kept.name))
    if (!kept || !file) return undefined
    const { file_name, size } = kept
    const stream = streamOf(copyBlocks(file.read()), () => void file.release())
    const { type, rest } = fromName ? { type: fromName, rest: stream } : await sniffType(stream)
    // Nobody would read or cancel the stream.
    if (signal.aborted) await rest.cancel(signal.reason)
    return { stream: rest, file_name, content_type: type, size }
  }

  /** Removes kept files. */
  discard(files: readonly Pick<KeptFile, 'name'>[]): Promise<void> {
    return this.ports.places.queued.discard(files.map(({ name }) => name))
  }

  /**
   * Removes files that no waiting message names. A crash leaves them between writing a file and its row, or
   * between deleting the row and its file.
   */
  async sweep(): Promise<void> {
    await this.ports.places.queued.sweep(new Set(await this.ports.store.outbox.listFiles()))
  }
}

/** Copies each block: the next block is read into the same memory, and the writer holds one back. */
async function* copyBlocks(blocks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const passed = createByteCounter()
  for await (const block of blocks) {
    passed(block.length)
    yield new Uint8Array(block)
  }
}
