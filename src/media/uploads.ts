/** Uploads: files that a caller hands over in advance, kept for a day for the send that names them. */
import { SvcError } from '../model/error.ts'
import type { AcceptedUpload } from '../model/media.ts'
import type { MediaContent, MediaKind } from '../model/message.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { StagedFile } from '../send/media-files.ts'
import { imageBytes } from './content-type.ts'
import { type FileName, fileNameOf } from './file-name.ts'
import type { MediaPorts } from './ports.ts'

export interface GivenUpload {
  body: ReadableStream<Uint8Array>
  /** Bytes at most, where that is known before they come. */
  size?: number
  file_name?: string
  kind?: MediaKind
  digest?: 'sha256'
}

type UploadsPorts = Pick<MediaPorts, 'places' | 'maxUploadBytes'>

export class Uploads {
  readonly #ports: UploadsPorts
  readonly #runtime: Runtime

  constructor(ports: UploadsPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * Takes an upload, streamed; a send within 24 h may name its id. There is room for it before it is read.
   *
   * @throws SvcError `payload_too_large`, `invalid_arguments` (empty, no image), `rate_limited` (too many wait),
   *   `store_unavailable` (disk)
   */
  async accept(upload: GivenUpload, caller: AbortSignal): Promise<AcceptedUpload> {
    using either = linked(caller, this.#runtime.closing)
    const { digest, kind, size } = upload
    const body = kind === 'image' ? imageBytes(upload.body, 'kind') : upload.body
    const upload_id = crypto.randomUUID()
    const named = fileNameOf(upload.file_name ?? '', `upload-${upload_id.slice(0, 8)}`)
    const placed = await this.#ports.places.uploads.put(upload_id, body, {
      ...{ digest, size, maxBytes: this.#ports.maxUploadBytes, signal: either.signal },
      note: { ...named, ...(kind && { kind }) },
    })
    const { sha256, expires_at = 0 } = placed
    return { upload_id, size: placed.size, sha256, expires_at }
  }

  /** A send took this one, which may make room for others now. */
  sent(id: string): void {
    this.#ports.places.uploads.served(id)
  }

  /** The file of an upload, to be sent. @throws SvcError `not_found` for one that is unknown, or whose day is over */
  async open(id: string, content: MediaContent): Promise<StagedFile> {
    const file = await this.#ports.places.uploads.open(id)
    if (!file?.md5) {
      throw new SvcError('not_found', 'there is no such upload', {
        field: 'media.upload_id',
        hint: 'An upload is kept for 24 hours.',
        next: { action: 'upload' },
      })
    }
    const { md5, note } = file
    const given: FileName = {
      file_name: String(note.file_name),
      ...(typeof note.renamed === 'string' && { renamed: note.renamed }),
    }
    const named = content.file_name === undefined ? given : fileNameOf(content.file_name, given.file_name)
    return { ...file, ...named, kind: content.kind, md5 }
  }

  /** Removes those whose day is over, and what a crash left half written. */
  sweep(): Promise<void> {
    return this.#ports.places.uploads.sweep()
  }
}
