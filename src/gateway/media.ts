/**
 * Media on its way: any source comes home as one file of ours, a file goes up encrypted, and what a user sent
 * comes down decrypted. Everything streams; memory stays bounded whatever the size.
 */

import { Buffer } from 'node:buffer'
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { Account, Api } from '../ilink/api.ts'
import type { Cdn } from '../ilink/cdn.ts'
import { encryptStream, paddedSize, parseAesKey, randomHexKey } from '../ilink/crypto.ts'
import { type MediaReference, mediaOf } from '../ilink/decode.ts'
import { SvcError } from '../model/error.ts'
import type { MediaContent, MediaKind, UploadedMedia } from '../model/message.ts'
import type { Clock } from '../platform/clock.ts'
import { fetchPublic } from '../platform/fetch.ts'
import {
  createUnique,
  ensurePrivateDir,
  insideDir,
  readText,
  safeBaseName,
  writeDurably,
} from '../platform/files.ts'
import type { Log } from '../platform/log.ts'
import type { Store } from '../store/store.ts'
import type { Call } from './call.ts'
import { extensionOf, sniffType, typeOfName } from './content-type.ts'
import type { AcceptedUpload, Downloaded, DownloadRequest, OpenedMedia } from './face.ts'
import { viewOf } from './view.ts'

/** An upload waits this long for the send that uses it. */
const uploadLifeMs = 24 * 60 * 60_000
/** Base64 in a JSON body, decoded. */
const dataLimitBytes = 16 * 1024 * 1024
const urlTimeoutMs = 10 * 60_000
const uploadId = /^[0-9a-f-]{36}$/

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
}

/** A source that has come home: a readable file of known size and digest. */
export interface HomeFile {
  kind: MediaKind
  path: string
  file_name: string
  size: number
  md5: string
  /** Removes the file if it was only made for this send. */
  release(): Promise<void>
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
  async bring(content: MediaContent, call: Call): Promise<HomeFile> {
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
   * Encrypts and uploads a file for `to`, reading it as it goes.
   *
   * @throws SvcError or ILinkError; nothing was sent to the user then
   */
  async upload(account: Account, to: string, file: HomeFile, signal: AbortSignal): Promise<UploadedMedia> {
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
      body: () =>
        encryptStream(createReadStream(file.path, { highWaterMark: 128 * 1024, end: file.size - 1 }), key),
      signal,
    })
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
   * Opens the media of a message as decrypted bytes.
   *
   * @throws SvcError `message_not_found`, `no_media`, `media_expired`, `upstream_error`
   */
  async open(request: { message_id: string; item: number }, signal: AbortSignal): Promise<OpenedMedia> {
    const { cdn, cdnUrl } = this.#ports
    const found = this.#find(request.message_id, request.item)
    const { stream, size } = await cdn.download(found, { cdnUrl, signal })
    const named = found.fileName === undefined ? undefined : safeBaseName(found.fileName, 'file')
    const fromName = named && typeOfName(named)
    if (named && fromName)
      return { stream, file_name: named, content_type: fromName, ...(size !== undefined && { size }) }
    const { type, rest } = await sniffType(stream)
    const file_name =
      named ?? `${found.kind}-${safeBaseName(request.message_id, 'media')}.${extensionOf(type)}`
    return { stream: rest, file_name, content_type: type, ...(size !== undefined && { size }) }
  }

  /**
   * Saves the media of a message; an existing file is never overwritten.
   *
   * @throws SvcError as `open`, and `forbidden` for a folder outside the media root
   */
  async download(request: DownloadRequest, call: Call): Promise<Downloaded> {
    const folder = await this.#saveFolder(request.save_dir, call)
    const { stream, file_name, content_type } = await this.open(request, call.signal)
    await ensurePrivateDir(folder)
    const target = await createUnique(folder, file_name)
    const partial = join(folder, `.${basename(target.path)}.${randomUUID().slice(0, 8)}.part`)
    try {
      const handle = await open(partial, 'wx', 0o600)
      let written: Written
      try {
        written = await drain(stream, handle, ['sha256'])
        await handle.sync()
      } finally {
        await handle.close()
      }
      await target.handle.close()
      // Over our own empty placeholder: whoever finds the name finds the whole file.
      await rename(partial, target.path)
      return {
        path: target.path,
        size: written.size,
        file_name: basename(target.path),
        content_type,
        sha256: written.digests.sha256!,
      }
    } catch (error) {
      await target.handle.close().catch(() => {})
      await Promise.all([rm(partial, { force: true }), rm(target.path, { force: true })])
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
    signal: AbortSignal,
  ): Promise<AcceptedUpload> {
    const { clock, maxUploadBytes } = this.#ports
    await this.#sweepUploads()
    const id = randomUUID()
    const path = await this.#uploadPath(id)
    const written = await this.#keep(upload.body, path, maxUploadBytes, signal, ['md5', 'sha256'])
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

  async #saveFolder(given: string | undefined, call: Call): Promise<string> {
    const { mediaRoot } = this.#ports
    if (given === undefined) return join(mediaRoot, 'downloads')
    return call.local ? resolve(given) : insideDir(mediaRoot, resolve(mediaRoot, given))
  }

  async #fromPath(content: MediaContent, given: string, call: Call): Promise<HomeFile> {
    const { mediaRoot, maxUploadBytes } = this.#ports
    const path = call.local ? resolve(given) : await insideDir(mediaRoot, resolve(mediaRoot, given))
    const info = await stat(path).catch(error => {
      throw new SvcError('invalid_arguments', `media.path: the file cannot be read (${codeOf(error)})`, {
        cause: error,
      })
    })
    if (!info.isFile()) throw new SvcError('invalid_arguments', 'media.path: expected a regular file')
    if (info.size > maxUploadBytes) throw tooLarge(maxUploadBytes)
    if (info.size === 0) throw empty()
    const { size, md5 } = await digestOf(path, call.signal)
    if (size !== info.size)
      throw new SvcError('invalid_arguments', 'media.path: the file changed while it was read')
    return {
      kind: content.kind,
      path,
      file_name: safeBaseName(content.file_name ?? basename(path), 'file'),
      size,
      md5,
      release: async () => {},
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
    const sidecar = JSON.parse(text) as Sidecar
    if (sidecar.expires_at <= this.#ports.clock.now()) throw gone()
    return {
      kind: content.kind,
      path,
      file_name:
        content.file_name === undefined
          ? sidecar.file_name
          : safeBaseName(content.file_name, sidecar.file_name),
      size: sidecar.size,
      md5: sidecar.md5,
      release: async () => {},
    }
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
    const text = data.replace(/^data:[^,]*;base64,/, '').replace(/\s+/g, '')
    if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text))
      throw new SvcError('invalid_arguments', 'media.data: expected base64')
    if (text.length > Math.ceil(dataLimitBytes / 3) * 4) throw tooLarge(dataLimitBytes)
    const bytes = Buffer.from(text, text.includes('-') || text.includes('_') ? 'base64url' : 'base64')
    return this.#temporary(content, new Blob([bytes]).stream(), undefined, dataLimitBytes)
  }

  async #temporary(
    content: MediaContent,
    body: ReadableStream<Uint8Array>,
    name: string | undefined,
    limit: number,
    signal?: AbortSignal,
  ): Promise<HomeFile> {
    const path = await this.#uploadPath(`${randomUUID()}.tmp`)
    const written = await this.#keep(body, path, limit, signal, ['md5'])
    return {
      kind: content.kind,
      path,
      file_name: safeBaseName(content.file_name ?? name ?? '', content.kind),
      size: written.size,
      md5: written.digests.md5!,
      release: () => rm(path, { force: true }),
    }
  }

  async #keep(
    body: ReadableStream<Uint8Array>,
    path: string,
    limit: number,
    signal: AbortSignal | undefined,
    algorithms: Algorithm[],
  ): Promise<Written> {
    const handle = await open(path, 'wx', 0o600)
    try {
      const written = await drain(body, handle, algorithms, limit, signal)
      if (written.size === 0) throw empty()
      return written
    } catch (error) {
      await rm(path, { force: true })
      throw diskError(error)
    } finally {
      await handle.close()
    }
  }

  async #uploadPath(id: string): Promise<string> {
    const folder = join(this.#ports.mediaRoot, 'uploads')
    await ensurePrivateDir(folder)
    return join(folder, id)
  }

  /** Removes uploads whose day is over, and what a crash left half written. */
  async #sweepUploads(): Promise<void> {
    const folder = join(this.#ports.mediaRoot, 'uploads')
    const before = this.#ports.clock.now() - uploadLifeMs - 60_000
    for (const name of await readdir(folder).catch(() => [])) {
      const path = join(folder, name)
      const info = await stat(path).catch(() => undefined)
      if (info?.isFile() && info.mtimeMs < before) await rm(path, { force: true })
    }
  }
}

/** One buffer for the whole file: fresh ones for each block would pile up faster than they are collected. */
async function digestOf(path: string, signal: AbortSignal): Promise<{ size: number; md5: string }> {
  const hash = createHash('md5')
  const block = Buffer.allocUnsafe(256 * 1024)
  const handle = await open(path, 'r')
  try {
    for (let size = 0; ; ) {
      signal.throwIfAborted()
      const { bytesRead } = await handle.read(block, 0, block.length, size)
      if (bytesRead === 0) return { size, md5: hash.digest('hex') }
      hash.update(block.subarray(0, bytesRead))
      size += bytesRead
    }
  } finally {
    await handle.close()
  }
}

type Algorithm = 'md5' | 'sha256'

interface Written {
  size: number
  digests: Partial<Record<Algorithm, string>>
}

/** Writes a stream into a file, hashing as it goes. */
async function drain(
  body: ReadableStream<Uint8Array>,
  handle: FileHandle,
  algorithms: Algorithm[],
  limit = Number.POSITIVE_INFINITY,
  signal?: AbortSignal,
): Promise<Written> {
  const hashes = algorithms.map(name => [name, createHash(name)] as const)
  let size = 0
  for await (const chunk of body) {
    signal?.throwIfAborted()
    size += chunk.byteLength
    if (size > limit) throw tooLarge(limit)
    for (const [, hash] of hashes) hash.update(chunk)
    for (let at = 0; at < chunk.byteLength; ) at += (await handle.write(chunk, at)).bytesWritten
  }
  return { size, digests: Object.fromEntries(hashes.map(([name, hash]) => [name, hash.digest('hex')])) }
}

const codeOf = (error: unknown) => (error as { code?: string }).code ?? 'unknown reason'

const tooLarge = (limit: number) => new SvcError('payload_too_large', `media: larger than ${limit} bytes`)

const empty = () => new SvcError('invalid_arguments', 'media: the file is empty')

function diskError(error: unknown): unknown {
  const code = codeOf(error)
  if (!['ENOSPC', 'EDQUOT', 'EROFS', 'EACCES', 'EIO', 'EPERM', 'ENOTDIR'].includes(code)) return error
  return new SvcError('store_unavailable', `the file cannot be written (${code})`, { cause: error })
}
