/** Uploads: files that a caller sends in advance, stored for a day for the send that names them. */
import { SvcError } from '../model/error.ts'
import type { AcceptedUpload } from '../model/media.ts'
import type { MediaContent, MediaKind } from '../model/message.ts'
import { keyIdOf, type Principal } from '../model/principal.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { StagedFile } from '../send/media-files.ts'
import { endedKeyError } from '../storage/keys.ts'
import { passImage } from './content-type.ts'
import { fileNameOf, type SafeFileName } from './file-name.ts'
import type { MediaPorts } from './ports.ts'

export interface MediaUpload {
  body: ReadableStream<Uint8Array>
  /** Maximum size in bytes, if known before the body comes. */
  size?: number
  file_name?: string
  kind?: MediaKind
  digest?: 'sha256'
  /** The id of the key that sends it: only this key may use it. `topic:<name>`: proved by the signature of a topic. */
  by?: string | undefined
  /** It is of a notice, and goes with it. */
  notice?: true
}

/** Returns who sends an upload, for `by`. */
export const uploaderOf = (by: Principal): string | undefined =>
  by.kind === 'open' ? `topic:${by.id}` : keyIdOf(by)
const isKey = (by: string): boolean => !by.startsWith('topic:')
/** A notice names its file within this time. */
const noticeMs = 15 * 60_000

type UploadsPorts = Pick<MediaPorts, 'places' | 'maxUploadBytes' | 'isKeyOver' | 'familyOf' | 'store'>

export class Uploads extends RunningPart<UploadsPorts> {
  #removing: Promise<void> = Promise.resolve()

  constructor(ports: UploadsPorts, runtime: Runtime) {
    super(ports, runtime)

    const { bus, log } = runtime
    bus.on('keysRevoked', () => {
      this.#removing = this.#removeEnded().catch(error =>
        log.warn('uploads of an ended key not removed', { error }),
      )
    })
  }

  /** Resolves when the uploads of the keys that ended in this process are removed. */
  get removed(): Promise<void> {
    return this.#removing
  }

  /**
   * Stores an upload while it streams in; a send within 24 h may name its id. Reserves disk space before
   * reading.
   *
   * @throws SvcError `payload_too_large`, `invalid_arguments` (empty, no image), `rate_limited` (too many
   * stored), `store_unavailable` (disk)
   */
  async accept(upload: MediaUpload, caller: AbortSignal): Promise<AcceptedUpload> {
    using signals = linkSignals(caller, this.runtime.closing)
    const { by, digest, kind, notice, size } = upload
    const body = kind === 'image' ? passImage(upload.body, 'kind') : upload.body
    const upload_id = crypto.randomUUID()
    const named = fileNameOf(upload.file_name ?? '', `upload-${upload_id.slice(0, 8)}`)
    const sharing = by !== undefined && (isKey(by) ? [...(await this.ports.familyOf(by))] : [by])
    const placed = await this.ports.places.uploads.put(upload_id, body, {
      digest,
      size,
      maxBytes: this.ports.maxUploadBytes,
      signal: signals.signal,
      note: withoutUndefined({ ...named, kind, by, notice }),
      sharing: sharing || undefined,
    })
    // It came in while its key ended.
    if (by !== undefined && isKey(by) && (await this.ports.isKeyOver(by))) {
      await this.#removeEnded()
      throw endedKeyError()
    }
    const { sha256, expires_at = 0 } = placed
    return { upload_id, size: placed.size, sha256, expires_at }
  }

  /** Records that a send uses the upload, so that its space may be freed for others. */
  markUsed(id: string): void {
    this.ports.places.uploads.markServed(id)
  }

  /**
   * Opens the file of an upload to send it.
   *
   * @throws SvcError `not_found` if it is unknown, older than a day, or of another key
   */
  async open(id: string, content: MediaContent, by: Principal): Promise<StagedFile> {
    const file = await this.ports.places.uploads.open(id)
    const key = keyIdOf(by)
    const isOwn = key === undefined || file?.note.by === key
    if (!file?.md5 || !isOwn) {
      await file?.release()
      throw new SvcError('not_found', 'there is no such upload', {
        field: 'media.upload_id',
        hint: 'An upload is kept for 24 hours.',
        next: { action: 'upload' },
      })
    }
    const { md5, note } = file
    const stored: SafeFileName = {
      file_name: String(note.file_name),
      ...(typeof note.renamed === 'string' && { renamed: note.renamed }),
    }
    const named = content.file_name === undefined ? stored : fileNameOf(content.file_name, stored.file_name)
    return { ...file, ...named, kind: content.kind, md5 }
  }

  /** Removes uploads older than a day, those of ended keys and of notices that are gone, and partial files of a crash. */
  async sweep(): Promise<void> {
    await this.ports.places.uploads.sweep()
    await this.#removeEnded()
  }

  /** Removes the uploads whose note names, as `by`, a key that has ended, and those that no notice names any more. */
  async #removeEnded(): Promise<void> {
    const { isKeyOver, places, store } = this.ports
    const before = this.runtime.clock.now() - noticeMs
    const named = await store.topics.listFiles()
    await places.uploads.removeWhere(
      async ({ by, notice }, { id, stored_at }) =>
        (notice === true && stored_at < before && !named.has(id)) ||
        (typeof by === 'string' && isKey(by) && (await isKeyOver(by))),
    )
  }
}
