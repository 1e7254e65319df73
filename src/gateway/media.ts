/**
 * Media on its way: any source comes home as one file of ours, a file goes up encrypted, and what a user sent
 * comes down decrypted. Everything streams; memory stays bounded whatever the size.
 */

import { Buffer } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { mkdir, rename, rm } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { Account, Api } from '../ilink/api.ts'
import type { Cdn } from '../ilink/cdn.ts'
import { encryptStream, paddedSize, parseAesKey, randomHexKey } from '../ilink/crypto.ts'
import { type MediaReference, mediaOf } from '../ilink/decode.ts'
import { streamOf } from '../ilink/progress.ts'
import { SvcError } from '../model/error.ts'
import type { MediaContent, MediaKind, UploadedMedia } from '../model/message.ts'
import type { Clock } from '../platform/clock.ts'
import { fetchPublic } from '../platform/fetch.ts'
import {
  createUnique,
  ensurePrivateDir,
  errorCodeOf,
  insideDir,
  readText,
  safeBaseName,
  sweep,
  syncDir,
  writeDurably,
} from '../platform/files.ts'
import type { Log } from '../platform/log.ts'
import type { KeptFile, Store } from '../store/store.ts'
import type { Call } from './call.ts'
import { extensionOf, sniffType, typeOfName } from './content-type.ts'
import { diskError, empty, keepStream, tooLarge } from './disk.ts'
import type { AcceptedUpload, Downloaded, DownloadRequest, OpenedMedia } from './face.ts'
import { type HomeFile, homeFile, md5Of, openRegular } from './home-file.ts'
import { linked } from './signals.ts'
import { viewOf } from './view.ts'

/** An upload waits this long for the send that uses it. */
const uploadLifeMs = 24 * 60 * 60_000
/** Base64 in a JSON body, decoded. */
const dataLimitBytes = 16 * 1024 * 1024
const urlTimeoutMs = 10 * 60_000
const uploadId = /^[0-9a-f-]{36}$/
/** Files that wait with their message in the outbox. */
const keptName = /^[0-9a-f-]{36}\.queued$/
/** What a process that died left half written is older than this: nothing pauses longer between two blocks. */
const staleMs = 60 * 60_000
/** Names that we give to what is not complete yet. */
const unfinished = /^\..+\.[0-9a-f]{8}\.part$|\.tmp$/

type Caller = Pick<Call, 'signal' | 'local'>

export interface MediaPorts {
  api: Api
  cdn: Cdn
  store: Store
  clock: Clock
  log: Log
  /** Real path of the folder that remote callers may send from and save to. */
  mediaRoot: string
  cdnUrl: string
  maxUploadBytes: number
  /** Whether an address is the configured upstream or CDN, which the address guard lets pass. */
  trusted(url: URL): boolean
  /** Aborts when the service stops. */
  closing: AbortSignal
}

interface Sidecar {
  file_name: string
  kind?: MediaKind
  size: number
  md5: string
  sha256: string
  expires_at: number
}

export class Media {
  readonly #ports: MediaPorts

  constructor(ports: MediaPorts) {
    this.#ports = ports
  }

  /**
   * Brings a source of media home.
   *
   * @throws SvcError `invalid_arguments` (not exactly one source, unreadable, bad base64), `forbidden` (outside the
   *   media root, blocked address), `payload_too_large`, `not_found` (unknown or expired upload id)
   */
  async bring(content: MediaContent, call: Caller): Promise<HomeFile> {
    const given = (['path', 'url', 'data', 'upload_id'] as const).filter(key => content[key] !== undefined)
    if (given.length !== 1) {
      throw new SvcError('invalid_arguments', 'media: expected exactly one of path, url, data, upload_id')
    }
    if (content.path !== undefined) return this.#fromPath(content, content.path, call)
    if (content.upload_id !== undefined) return this.#fromUpload(content, content.upload_id)
    if (content.url !== undefined) return this.#fromUrl(content, content.url, call.signal)
    return this.#fromData(content, content.data!)
  }

  /**
   * Encrypts and uploads a file for `to`, reading it as it goes; `progress` hears of every block that the network took.
   *
   * @throws SvcError or ILinkError; nothing was sent to the user then
   */
  async upload(
    account: Account,
    to: string,
    file: HomeFile,
    signal: AbortSignal,
    progress?: Call['progress'],
  ): Promise<UploadedMedia> {
    const { api, cdn, cdnUrl } = this.#ports
    const aes_key_hex = randomHexKey()
    const key = parseAesKey(aes_key_hex)
    const filekey = randomHexKey()
    const cipher_size = paddedSize(file.size)
    const target = await api.getUploadUrl(
      account,
      {
        filekey,
        mediaType: file.kind,
        to,
        rawSize: file.size,
        rawMd5: file.md5,
        cipherSize: cipher_size,
        aesKeyHex: aes_key_hex,
      },
      signal,
    )
    const { downloadParam } = await cdn.upload({
      ...target,
      cdnUrl,
      filekey,
      cipherSize: cipher_size,
      body: () => {
        const cipher = encryptStream(file.read(), key)
        return progress ? counted(cipher, `upload ${file.file_name}`, cipher_size, progress) : cipher
      },
      signal,
    })
    await file.unchanged()
    return {
      media_type: file.kind,
      filekey,
      download_param: downloadParam,
      aes_key_hex,
      file_size: file.size,
      cipher_size,
      file_name: file.file_name,
    }
  }

  /**
   * Copies a file that has come home to where it stays until it is sent.
   *
   * @throws SvcError `store_unavailable` (disk); the signal's reason
   */
  async keep(file: HomeFile, signal: AbortSignal): Promise<KeptFile> {
    const folder = await this.#keptFolder()
    const name = `${randomUUID()}.queued`
    const { file_name, size, md5 } = file
    const { digests } = await keepStream(
      streamOf(file.read(), () => {}),
      join(folder, name),
      {
        ...{ digests: ['md5'], signal, durable: true },
      },
    )
    if (digests.md5 !== md5) {
      await this.discard([{ name }])
      throw new SvcError('invalid_arguments', 'media: the file changed while it was read')
    }
    await syncDir(folder)
    return { name, file_name, size, md5 }
  }

  /** A kept file, to be sent. @throws SvcError `invalid_arguments` when it is gone or another one */
  async kept({ name, file_name, size, md5 }: KeptFile, kind: MediaKind): Promise<HomeFile> {
    const opened = await openRegular(join(await this.#keptFolder(), name), {
      maxBytes: Number.MAX_SAFE_INTEGER,
    })
    if (opened.size === size) return homeFile(opened, { kind, file_name, md5 })
    await opened.handle.close()
    throw new SvcError('invalid_arguments', 'media: the file is not what was queued')
  }

  /** Removes kept files. */
  async discard(files: readonly Pick<KeptFile, 'name'>[]): Promise<void> {
    const folder = join(this.#ports.mediaRoot, 'outbox')
    for (const { name } of files) {
      await rm(join(folder, name), { force: true }).catch(error =>
        this.#ports.log.warn('file of a sent message not removed', { name, error }),
      )
    }
  }

  /**
   * Opens the media of a message as decrypted bytes.
   *
   * @throws SvcError `message_not_found`, `no_media`, `media_expired`, `upstream_error`
   */
  async open(request: { message_id: string; item: number }, signal: AbortSignal): Promise<OpenedMedia> {
    const { cdn, cdnUrl } = this.#ports
    const found = this.#find(request.message_id, request.item)
    const { stream, size } = await cdn.download(found, { cdnUrl, signal })
    const named = found.fileName === undefined ? undefined : safeBaseName(found.fileName, 'file')
    const fromName = named && (await typeOfName(named))
    if (named && fromName)
      return { stream, file_name: named, content_type: fromName, ...(size !== undefined && { size }) }
    const { type, rest } = await sniffType(stream)
    const file_name =
      named ?? `${found.kind}-${safeBaseName(request.message_id, 'media')}.${await extensionOf(type)}`
    return { stream: rest, file_name, content_type: type, ...(size !== undefined && { size }) }
  }

  /**
   * Saves the media of a message; an existing file is never overwritten.
   *
   * @throws SvcError as `open`, and `forbidden` for a folder outside the media root
   */
  async download(request: DownloadRequest, call: Call): Promise<Downloaded> {
    using either = linked(call.signal, this.#ports.closing)
    const { signal } = either
    this.#find(request.message_id, request.item)
    const folder = await this.#saveFolder(request.save_dir, call)
    const { stream, file_name, content_type, size } = await this.open(request, signal)
    const partial = join(folder, `.${file_name}.${randomUUID().slice(0, 8)}.part`)
    const source = call.progress
      ? streamOf(counted(stream, `download ${file_name}`, size, call.progress), () => {})
      : stream
    const written = await keepStream(source, partial, { digests: ['sha256'], signal, durable: true })
    try {
      const target = await createUnique(folder, file_name)
      await target.handle.close()
      // Over our own empty placeholder: whoever finds the name finds the whole file a moment later.
      await rename(partial, target.path)
      return {
        path: target.path,
        size: written.size,
        file_name: basename(target.path),
        content_type,
        sha256: written.digests.sha256!,
      }
    } catch (error) {
      await rm(partial, { force: true })
      throw diskError(error)
    }
  }

  /**
   * Takes an upload, streamed to disk; a send within 24 h may name its id.
   *
   * @throws SvcError `payload_too_large`, `invalid_arguments` (empty), `store_unavailable` (disk)
   */
  async accept(
    upload: { body: ReadableStream<Uint8Array>; file_name?: string; kind?: MediaKind },
    caller: AbortSignal,
  ): Promise<AcceptedUpload> {
    const { clock, closing, maxUploadBytes } = this.#ports
    using either = linked(caller, closing)
    const { signal } = either
    const id = randomUUID()
    const path = await this.#uploadPath(id)
    const written = await keepStream(upload.body, path, {
      ...{ digests: ['md5', 'sha256'], maxBytes: maxUploadBytes, signal },
    })
    try {
      if (written.size === 0) throw empty()
      const sidecar: Sidecar = {
        file_name: safeBaseName(upload.file_name ?? '', `upload-${id.slice(0, 8)}`),
        ...(upload.kind && { kind: upload.kind }),
        size: written.size,
        md5: written.digests.md5!,
        sha256: written.digests.sha256!,
        expires_at: clock.now() + uploadLifeMs,
      }
      await writeDurably(`${path}.json`, JSON.stringify(sidecar))
      return { upload_id: id, size: sidecar.size, sha256: sidecar.sha256, expires_at: sidecar.expires_at }
    } catch (error) {
      await rm(path, { force: true })
      throw diskError(error)
    }
  }

  /** Removes uploads whose day is over, and what a crash left half written. */
  async sweep(): Promise<void> {
    const { clock, mediaRoot, store } = this.#ports
    const uploads = join(mediaRoot, 'uploads')
    await sweep(uploads, unfinished, clock.now() - staleMs)
    await sweep(join(mediaRoot, 'downloads'), unfinished, clock.now() - staleMs)
    await sweep(uploads, /^[0-9a-f-]{36}(\.json)?$/, clock.now() - uploadLifeMs - 60_000)
    // Files that no waiting message names: what a crash left between file and row, or between row and removal.
    const needed = store.outbox(outbox => outbox.files())
    const kept = { test: (name: string) => keptName.test(name) && !needed.has(name) }
    await sweep(join(mediaRoot, 'outbox'), kept, clock.now() - staleMs)
  }

  #find(messageId: string, item: number): MediaReference {
    const row = this.#ports.store.byMessageId(messageId)
    if (!row) throw new SvcError('message_not_found', `there is no message ${messageId}`)
    const found = mediaOf(row.raw, item)
    if (found) return found
    const count = viewOf(this.#ports.store, row).items.filter(part => part.has_media).length
    throw new SvcError(
      'no_media',
      count === 0
        ? 'this message has no media'
        : `this message has ${count} media, counted from 0; there is no ${item}`,
    )
  }

  /** The folder to save into, made when there is none. Its rights are its owner's business when it was there. */
  async #saveFolder(given: string | undefined, call: Caller): Promise<string> {
    const { mediaRoot } = this.#ports
    const usual = join(mediaRoot, 'downloads')
    const folder =
      given === undefined
        ? usual
        : call.local
          ? resolve(given)
          : await insideDir(mediaRoot, resolve(mediaRoot, given))
    try {
      if (folder === usual) await ensurePrivateDir(usual, { parents: false })
      else await mkdir(folder, { recursive: true, mode: 0o700 })
    } catch (error) {
      if (given === undefined || errorCodeOf(error) === 'ENOSPC') throw diskError(error)
      throw new SvcError('invalid_arguments', `save_dir: expected a folder (${errorCodeOf(error)})`, {
        cause: error,
      })
    }
    // Once more now that it is there: a link may have been put in its way.
    return call.local ? folder : insideDir(mediaRoot, folder)
  }

  async #fromPath(content: MediaContent, given: string, call: Caller): Promise<HomeFile> {
    const { mediaRoot, maxUploadBytes } = this.#ports
    const path = call.local ? resolve(given) : resolve(mediaRoot, given)
    const opened = await openRegular(path, {
      maxBytes: maxUploadBytes,
      ...(!call.local && { root: mediaRoot }),
    })
    try {
      const md5 = await md5Of(opened, call.signal)
      const file_name = safeBaseName(content.file_name ?? basename(path), 'file')
      return homeFile(opened, { kind: content.kind, file_name, md5 })
    } catch (error) {
      await opened.handle.close()
      throw error
    }
  }

  async #fromUpload(content: MediaContent, id: string): Promise<HomeFile> {
    const gone = () =>
      new SvcError('not_found', 'media.upload_id: there is no such upload', {
        hint: 'Uploads are kept for 24 hours; POST /media again.',
      })
    if (!uploadId.test(id)) throw gone()
    const path = await this.#uploadPath(id)
    const text = await readText(`${path}.json`)
    if (text === undefined) throw gone()
    const sidecar = sidecarIn(text)
    if (!sidecar || sidecar.expires_at <= this.#ports.clock.now()) throw gone()
    const opened = await openRegular(path, { maxBytes: Number.MAX_SAFE_INTEGER }).catch(() => {
      throw gone()
    })
    if (opened.size !== sidecar.size) {
      await opened.handle.close()
      throw gone()
    }
    return homeFile(opened, {
      kind: content.kind,
      file_name:
        content.file_name === undefined
          ? sidecar.file_name
          : safeBaseName(content.file_name, sidecar.file_name),
      md5: sidecar.md5,
    })
  }

  async #fromUrl(content: MediaContent, given: string, signal: AbortSignal): Promise<HomeFile> {
    const { maxUploadBytes, trusted } = this.#ports
    const fetched = await fetchPublic(given, {
      maxBytes: maxUploadBytes,
      timeoutMs: urlTimeoutMs,
      signal,
      allow: trusted,
    })
    return this.#temporary(content, fetched.body, fetched.fileName, maxUploadBytes, signal)
  }

  async #fromData(content: MediaContent, data: string): Promise<HomeFile> {
    // Cheap first: what is far too long need not be looked at letter by letter.
    if (data.length > dataLimitBytes * 2) throw tooLarge(dataLimitBytes)
    const text = data
      .replace(/^data:[^,]*;base64,/i, '')
      .replace(/\s+/g, '')
      .replace(/=+$/, '')
    if (!/^[A-Za-z0-9+/_-]*$/.test(text) || text.length % 4 === 1)
      throw new SvcError('invalid_arguments', 'media.data: expected base64')
    const bytes = Buffer.from(text, text.includes('-') || text.includes('_') ? 'base64url' : 'base64')
    if (bytes.length > dataLimitBytes) throw tooLarge(dataLimitBytes)
    return this.#temporary(content, new Blob([bytes]).stream(), undefined, dataLimitBytes)
  }

  async #temporary(
    content: MediaContent,
    body: ReadableStream<Uint8Array>,
    name: string | undefined,
    maxBytes: number,
    signal?: AbortSignal,
  ): Promise<HomeFile> {
    const path = await this.#uploadPath(`${randomUUID()}.tmp`)
    const { digests } = await keepStream(body, path, {
      ...{ digests: ['md5'], maxBytes },
      ...(signal && { signal }),
    })
    const remove = () => rm(path, { force: true })
    try {
      const file_name = safeBaseName(content.file_name ?? name ?? '', content.kind)
      const opened = await openRegular(path, { maxBytes })
      return homeFile(opened, { kind: content.kind, file_name, md5: digests.md5!, remove })
    } catch (error) {
      await remove()
      throw error
    }
  }

  async #keptFolder(): Promise<string> {
    const folder = join(this.#ports.mediaRoot, 'outbox')
    try {
      await ensurePrivateDir(folder, { parents: false })
    } catch (error) {
      throw diskError(error)
    }
    return folder
  }

  async #uploadPath(id: string): Promise<string> {
    const folder = join(this.#ports.mediaRoot, 'uploads')
    try {
      await ensurePrivateDir(folder, { parents: false })
    } catch (error) {
      throw diskError(error)
    }
    return join(folder, id)
  }
}

/** The same bytes; `progress` is told how many have been taken. */
async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  what: string,
  total: number | undefined,
  progress: NonNullable<Call['progress']>,
): AsyncGenerator<Uint8Array> {
  const step = (done: number) => progress({ what, done, ...(total !== undefined && { total }) })
  let done = 0
  step(0)
  for await (const chunk of chunks) {
    yield chunk
    done += chunk.length
    step(done)
  }
}

function sidecarIn(text: string): Sidecar | undefined {
  try {
    const { file_name, size, md5, sha256, expires_at } = JSON.parse(text) as Partial<Sidecar>
    if (typeof file_name !== 'string' || typeof md5 !== 'string' || typeof sha256 !== 'string')
      return undefined
    if (typeof size !== 'number' || typeof expires_at !== 'number') return undefined
    return { file_name, size, md5, sha256, expires_at }
  } catch {
    return undefined
  }
}
