/**
 * Media in transit: each source is staged as one open file, uploads are encrypted, downloads are decrypted.
 * All of it streams, so memory use does not grow with the size.
 */
import type { Account } from '../ilink/api.ts'
import { encryptStream, paddedSizeOf, parseAesKey, randomHexKey } from '../ilink/crypto.ts'
import type { UploadedMedia } from '../ilink/encode.ts'
import type { Call } from '../model/call.ts'
import type { MediaContent } from '../model/message.ts'
import { RunningPart } from '../platform/runtime.ts'
import { streamOf } from '../platform/streams.ts'
import type { StagedFile } from '../send/media-files.ts'
import { Downloads } from './downloads.ts'
import { KeptFiles } from './outbox-files.ts'
import type { MediaPorts } from './ports.ts'
import { Sources } from './sources.ts'
import { Uploads, uploaderOf } from './uploads.ts'

export class Media extends RunningPart<MediaPorts> {
  readonly uploads = new Uploads(this.ports, this.runtime)
  readonly sources = new Sources({ ...this.ports, uploads: this.uploads })
  readonly downloads = new Downloads(this.ports, this.runtime)
  readonly kept = new KeptFiles(this.ports)

  /**
   * Encrypts and uploads a file for `to`, and reads it in the process. Calls `progress` for each block
   * sent.
   *
   * @throws SvcError or ILinkError; nothing was sent to the user then
   */
  async upload(
    account: Account,
    to: string,
    file: StagedFile,
    signal: AbortSignal,
    progress?: Call['progress'],
  ): Promise<UploadedMedia> {
    const { api, cdn, cdnUrl } = this.ports.upstream
    const { file_name, kind, md5, size } = file
    const aesKeyHex = randomHexKey()
    const key = parseAesKey(aesKeyHex)
    const filekey = randomHexKey()
    const cipherSize = paddedSizeOf(size)
    const sealed = { kind, file_name, size, cipherSize, aesKeyHex }
    const target = await api.getUploadUrl(account, { ...sealed, filekey, to, md5 }, signal)
    const uploading = cdn.upload({
      ...target,
      cdnUrl,
      filekey,
      cipherSize,
      body: () => encryptStream(file.read(), key),
      signal,
      progress: done => progress?.({ what: `upload ${file_name}`, done, total: cipherSize }),
    })
    const { downloadParam } = await uploading.catch(async error => {
      // If the file changed during the upload, that is the cause, whatever error WeChat gave.
      if (!signal.aborted) await file.checkUnchanged()
      throw error
    })
    await file.checkUnchanged()
    return { ...sealed, downloadParam }
  }

  /** Keeps a source of a notice as an upload, for a send within a day. @throws as `Sources.stage` and `Uploads.accept` */
  async keep(content: MediaContent, call: Call): Promise<MediaContent> {
    const file = await this.sources.stage(content, call)
    try {
      const { file_name, kind, size } = file
      const body = streamOf(file.read())
      const upload = { body, size, file_name, kind, by: uploaderOf(call.by), notice: true } as const
      const { upload_id } = await this.uploads.accept(upload, call.signal)
      return { kind, upload_id, file_name }
    } finally {
      await file.release()
    }
  }
}
