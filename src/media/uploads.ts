/** Uploads: files that a caller hands over in advance, kept for a day for the send that names them. */
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from '../model/error.ts'
import type { AcceptedUpload } from '../model/media.ts'
import type { MediaContent, MediaKind } from '../model/message.ts'
import { readText, safeBaseName, sweep, writeDurably } from '../platform/files.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { StagedFile } from '../send/media-files.ts'
import { diskError, empty, keepStream, mediaFolder, staleMs, unfinished } from './disk.ts'
import type { MediaPorts } from './ports.ts'
import { openRegular, stagedFile } from './staged-file.ts'
import { UploadQuota } from './upload-quota.ts'

export interface GivenUpload {
  body: ReadableStream<Uint8Array>
  /** Bytes at most, where that is known before they come. */
  size?: number
  file_name?: string
  kind?: MediaKind
  digest?: 'sha256'
}

type UploadsPorts = Pick<MediaPorts, 'folders' | 'space' | 'maxUploadBytes'>

/** An upload waits this long for the send that uses it. */
const uploadLifeMs = 24 * 60 * 60_000
/** All that wait may be this many times as large as the largest that is allowed. */
const quotaTimes = 4
const uploadId = /^[0-9a-f-]{36}$/

/** What stands beside an upload. */
interface Sidecar {
  file_name: string
  kind?: MediaKind
  size: number
  md5: string
  expires_at: number
}

export class Uploads {
  readonly #ports: UploadsPorts
  readonly #runtime: Runtime
  readonly #quota: UploadQuota

  constructor(ports: UploadsPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    const { folders, maxUploadBytes } = ports
    this.#quota = new UploadQuota({
      ...{ clock: runtime.clock, folder: join(folders.mediaRoot, 'uploads') },
      ...{ largestBytes: maxUploadBytes, maxBytes: maxUploadBytes * quotaTimes, lifeMs: uploadLifeMs },
    })
  }

  /**
   * Takes an upload, streamed to disk; a send within 24 h may name its id. There is room for it before it is read.
   *
   * @throws SvcError `payload_too_large`, `invalid_arguments` (empty), `rate_limited` (too many wait),
   *   `store_unavailable` (disk)
   */
  async accept(upload: GivenUpload, caller: AbortSignal): Promise<AcceptedUpload> {
    const id = randomUUID()
    let size: number | undefined
    let settle: ((kept?: number) => void) | undefined
    try {
      settle = await this.#quota.reserve(id, upload.size)
      const accepted = await this.#keep(id, upload, caller)
      size = accepted.size
      return accepted
    } catch (error) {
      await upload.body.cancel(error).catch(() => {})
      throw error
    } finally {
      settle?.(size)
    }
  }

  async #keep(id: string, upload: GivenUpload, caller: AbortSignal): Promise<AcceptedUpload> {
    const { clock, closing } = this.#runtime
    const { maxUploadBytes, space } = this.#ports
    using either = linked(caller, closing)
    const { signal } = either
    const path = await this.#pathOf(id)
    const written = await keepStream(upload.body, path, {
      digests: ['md5', ...(upload.digest ? [upload.digest] : [])],
      ...{ maxBytes: maxUploadBytes, size: upload.size, signal, space },
    })
    try {
      if (written.size === 0) throw empty()
      const sidecar: Sidecar = {
        file_name: safeBaseName(upload.file_name ?? '', `upload-${id.slice(0, 8)}`),
        kind: upload.kind,
        size: written.size,
        md5: written.digests.md5!,
        expires_at: clock.now() + uploadLifeMs,
      }
      await writeDurably(`${path}.json`, JSON.stringify(sidecar))
      const { size, expires_at } = sidecar
      const { sha256 } = written.digests
      return { upload_id: id, size, sha256, expires_at }
    } catch (error) {
      await rm(path, { force: true })
      throw diskError(error)
    }
  }

  /** A send took this one, which may make room for others now. */
  sent(id: string): void {
    this.#quota.sent(id)
  }

  /** The file of an upload, to be sent. @throws SvcError `not_found` for one that is unknown, or whose day is over */
  async open(id: string, content: MediaContent): Promise<StagedFile> {
    const gone = () =>
      new SvcError('not_found', 'there is no such upload', {
        field: 'media.upload_id',
        hint: 'An upload is kept for 24 hours.',
        next: { action: 'upload' },
      })
    if (!uploadId.test(id)) throw gone()
    const path = await this.#pathOf(id)
    const text = await readText(`${path}.json`)
    if (text === undefined) throw gone()
    const sidecar = sidecarIn(text)
    if (!sidecar || sidecar.expires_at <= this.#runtime.clock.now()) throw gone()
    const opened = await openRegular(path, { maxBytes: Number.MAX_SAFE_INTEGER }).catch(() => {
      throw gone()
    })
    if (opened.size !== sidecar.size) {
      await opened.handle.close()
      throw gone()
    }
    return stagedFile(opened, {
      kind: content.kind,
      file_name: safeBaseName(content.file_name ?? sidecar.file_name, sidecar.file_name),
      md5: sidecar.md5,
      ours: true,
    })
  }

  /** Removes those whose day is over, and what a crash left half written. */
  async sweep(): Promise<void> {
    const { clock } = this.#runtime
    const folder = join(this.#ports.folders.mediaRoot, 'uploads')
    await sweep(folder, unfinished, clock.now() - staleMs)
    await sweep(folder, /^[0-9a-f-]{36}(\.json)?$/, clock.now() - uploadLifeMs - 60_000)
  }

  async #pathOf(id: string): Promise<string> {
    return join(await mediaFolder(this.#ports.folders.mediaRoot, 'uploads'), id)
  }
}

function sidecarIn(text: string): Sidecar | undefined {
  try {
    const { file_name, size, md5, expires_at } = JSON.parse(text) as Partial<Sidecar>
    if (typeof file_name !== 'string' || typeof md5 !== 'string') return undefined
    if (typeof size !== 'number' || typeof expires_at !== 'number') return undefined
    return { file_name, size, md5, expires_at }
  } catch {
    return undefined
  }
}
