/** Downloads of media that users sent, decrypted: as a stream, or as a file that never overwrites another. */
import { Buffer } from 'node:buffer'
import { mkdir, readdir, realpath, rename, rm } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { OpenedDownload } from '../ilink/cdn.ts'
import { type MediaReference, mediaOf } from '../ilink/decode.ts'
import type { Scope } from '../model/access.ts'
import { type Call, createByteCount } from '../model/call.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Downloaded } from '../model/media.ts'
import { owner } from '../model/principal.ts'
import { type HeldFolder, openFolderBelow } from '../platform/below.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { diskError, keepStream, staleFileMs } from '../platform/file-stream.ts'
import {
  createUnique,
  ensurePrivateDir,
  errorCodeOf,
  resolveInside,
  sweep,
  toDiskForm,
} from '../platform/files.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { StoredMessage } from '../storage/messages.ts'
import { extensionOf, sniffType, typeOfName } from './content-type.ts'
import {
  cutName,
  fileNameOf,
  partialNamePattern,
  type SafeFileName,
  safeNameBytes,
  toDiskName,
} from './file-name.ts'
import { downloadsFolderOf, requireAllowedPath } from './own-files.ts'
import type { MediaPorts } from './ports.ts'
import { Voices } from './voices.ts'

export interface DownloadRequest {
  message_id: string
  save_dir?: string
  /** Index of the media among the message's items with media, from 0. */
  item: number
  /** Digest to compute during the download. It takes as long as the rest of the download. */
  digest?: 'sha256'
  /** Messages outside the scope are unknown. */
  scope?: Scope
}

export interface OpenRequest {
  message_id: string
  item: number
  /** True if the caller needs the exact size of a video. One of up to 64 MiB is read once to count it. */
  sized?: boolean
  /** A voice message comes as WeChat has it, not as WAV. */
  format?: 'original'
  /** Messages outside the scope are unknown. */
  scope?: Scope
}

/** The file of a message, by its row. */
export interface ShowRequest extends Pick<OpenRequest, 'scope' | 'sized'> {
  row: number
}

/** Media larger than this are not read just to count their bytes. */
const maxCountedBytes = 64 * 1024 * 1024
/** Longest path on Linux in bytes, with its end. */
const longestPath = 4096
/** Number of counts to keep in memory. */
const maxRememberedCounts = 1000

/** Decrypted media as a stream. Read it to its end, or cancel it. */
export interface OpenedMedia extends SafeFileName {
  stream: ReadableStream<Uint8Array>
  content_type: string
  /** Size in bytes; undefined if WeChat did not send it. */
  size?: number
  /** True for a voice that is usually WAV, and could not be decoded this time. */
  isUndecoded?: boolean
}

type DownloadPorts = Pick<MediaPorts, 'upstream' | 'store' | 'views' | 'folders' | 'space'>

export class Downloads extends RunningPart<DownloadPorts> {
  readonly #voices: Voices
  /** Byte counts of videos by item and message. A count in progress serves all callers. */
  readonly #counts = new Map<string, Promise<number | undefined>>()

  constructor(ports: DownloadPorts, runtime: Runtime) {
    super(ports, runtime)

    this.#voices = new Voices(runtime)
  }

  /**
   * Opens the media of a message as decrypted bytes.
   *
   * @throws SvcError `message_not_found`, `no_media`, `media_expired`, `upstream_error`
   */
  async open(request: OpenRequest, signal: AbortSignal): Promise<OpenedMedia> {
    return this.#open(await this.#find(request), request, signal)
  }

  async #open(found: MediaReference, request: OpenRequest, signal: AbortSignal): Promise<OpenedMedia> {
    const { stream, size } = await this.#fetch(found, request, signal)
    const named = found.fileName === undefined ? undefined : fileNameOf(found.fileName, 'file')
    const fromName = named && (await typeOfName(named.file_name))
    if (named && fromName) return { ...named, stream, content_type: fromName, size }
    const { type, rest } = await sniffType(stream)
    const { message_id: id, format } = request
    const { type: content_type, ...opened } =
      found.kind === 'voice'
        ? await this.#voices.open({ stream: rest, type }, { id, isOriginal: format === 'original', signal })
        : { stream: rest, type, size }
    const unnamed = `${found.kind}-${id.replace(/[^\w.-]/g, '_')}.${await extensionOf(content_type)}`
    return { ...(named ?? fileNameOf(unnamed, found.kind)), ...opened, content_type }
  }

  /**
   * Opens the media of a sent message, which has only one.
   *
   * @throws SvcError as `open`, but `no_media` for an unknown row
   */
  async openSent({ row: id, scope, sized }: ShowRequest, signal: AbortSignal): Promise<OpenedMedia> {
    const [row] = await this.ports.store.log.getByIds([id], undefined, scope)
    if (!row) throw new SvcError('no_media', 'there is no such message')
    // Not by its message_id, which it gets from WeChat when it is sent.
    const request = { message_id: row.message_id, item: 0, scope, sized }
    return this.#open(await this.#mediaIn(row, 0), request, signal)
  }

  /**
   * Saves the media of a message to a file; never overwrites an existing file.
   *
   * @throws SvcError as `open`, and `forbidden` for a folder outside the media root or of svc itself
   */
  async download(request: DownloadRequest, call: Call): Promise<Downloaded> {
    using signals = linkSignals(call.signal, this.runtime.closing)
    const { signal } = signals
    await this.#find(request)
    await using folder = await this.#openSaveFolder(request.save_dir, call)
    const { stream, content_type, size, isUndecoded: _, ...named } = await this.open(request, signal)
    const onThisDisk = toDiskName(named)
    const { file_name } = onThisDisk
    const id = crypto.randomUUID()
    const partial = join(folder.path, `.${id.slice(9)}.${id.slice(0, 8)}.part`)
    const progress = (done: number) => call.progress?.({ what: `download ${file_name}`, done, total: size })
    progress(0)
    const count = createByteCount(call)
    const written = await keepStream(stream, partial, {
      digests: request.digest ? [request.digest] : [],
      signal,
      space: this.ports.space,
      size,
      durable: true,
      isCounted: true,
      progress(done) {
        count(done)
        progress(done)
      },
    })
    try {
      const { path, renamed } = await createFile(onThisDisk, folder)
      // Replaces our own empty placeholder: from then on the name is the whole file.
      await rename(partial, path)
      const { sha256 } = written.digests
      return withoutUndefined({
        path: join(folder.name, basename(path)),
        size: written.size,
        file_name: basename(path),
        content_type,
        renamed,
        sha256,
      })
    } catch (error) {
      await rm(partial, { force: true })
      throw diskError(error)
    }
  }

  async #fetch(
    found: MediaReference,
    { message_id, item, sized }: OpenRequest,
    signal: AbortSignal,
  ): Promise<OpenedDownload> {
    const { cdn, cdnUrl } = this.ports.upstream
    const isCounted = sized && found.kind === 'video'
    const size = isCounted ? await this.#getCount(`${item} ${message_id}`, found) : undefined
    return await cdn.download({ ...found, size: size ?? found.size }, { cdnUrl, signal })
  }

  #getCount(key: string, found: MediaReference): Promise<number | undefined> {
    const known = this.#counts.get(key)
    if (known) return known
    const [oldest] = this.#counts.keys()
    if (oldest !== undefined && this.#counts.size >= maxRememberedCounts) this.#counts.delete(oldest)
    const count = this.#countMedia(found)
    this.#counts.set(key, count)
    count.catch(() => this.#counts.delete(key))
    return count
  }

  /** Counts the bytes of media; returns undefined if there are more than `maxCountedBytes`. */
  async #countMedia(found: MediaReference): Promise<number | undefined> {
    const { cdn, cdnUrl } = this.ports.upstream
    if (found.size !== undefined && found.size > maxCountedBytes) return undefined
    const { stream, size } = await cdn.download(found, { cdnUrl, signal: this.runtime.closing })
    if (size !== undefined) {
      await stream.cancel()
      return size
    }
    let bytes = 0
    for await (const chunk of stream) {
      bytes += chunk.length
      if (bytes > maxCountedBytes) return undefined
    }
    return bytes
  }

  /** Removes the partial files of downloads that a crash interrupted. */
  async sweep(): Promise<void> {
    const before = this.runtime.clock.now() - staleFileMs
    const downloads = downloadsFolderOf(this.ports.folders.mediaRoot, owner)
    const all = await readdir(downloads, { withFileTypes: true }).catch(() => [])
    const ofKeys = all.filter(one => one.isDirectory()).map(({ name }) => join(downloads, name))
    for (const folder of [downloads, ...ofKeys]) await sweep(folder, partialNamePattern, before)
  }

  async #find({ item, message_id, scope }: OpenRequest): Promise<MediaReference> {
    const [row] = (await this.ports.store.log.getByMessageIds([message_id], undefined, scope)).rows
    if (!row) throw await this.#unknownMessageError(message_id, scope)
    return this.#mediaIn(row, item)
  }

  async #mediaIn(row: StoredMessage, item: number): Promise<MediaReference> {
    const found = mediaOf(row.raw, item)
    if (found) return found
    const count = (await this.ports.views.toMessage(row)).items.filter(part => part.has_media).length
    throw new SvcError(
      'no_media',
      count === 0
        ? 'this message has no media'
        : `this message has ${count} media, counted from 0; there is no ${item}`,
    )
  }

  /**
   * Returns the error for an unknown message id. Every message displays its row id before its `message_id`:
   * a caller that used the row id gets the right id.
   */
  async #unknownMessageError(messageId: string, scope: Scope | undefined): Promise<SvcError> {
    const none = `there is no message ${messageId}`
    const isRowId = /^\d{1,15}$/.test(messageId)
    const [row] = isRowId ? await this.ports.store.log.getByIds([Number(messageId)], undefined, scope) : []
    if (!row) return new SvcError('message_not_found', none)
    const { message_id } = row
    return new SvcError('message_not_found', `${none}; that is the row id of message ${message_id}`, {
      hint: `Use its message_id, ${message_id}.`,
      details: { message_id },
    })
  }

  /** Opens the folder to save into; creates it if needed. An existing folder keeps its permissions. */
  async #openSaveFolder(
    saveDir: string | undefined,
    call: Pick<Call, 'by' | 'local' | 'below'>,
  ): Promise<HeldFolder> {
    const { folders } = this.ports
    const downloads = downloadsFolderOf(folders.mediaRoot, call.by)
    const refusal = "nothing is saved among svc's own files"
    const allow = (path: string) => requireAllowedPath({ path, field: 'save_dir', refusal }, folders, call)
    const real = saveDir === undefined ? downloads : await allow(saveDir)
    // The result has the path as the user named it.
    const folder = saveDir !== undefined && call.local === true ? await toDiskForm(resolve(saveDir)) : real
    try {
      if (call.below !== undefined && saveDir !== undefined)
        return await openFolderBelow(call.below, saveDir, { create: true })
      if (folder === downloads)
        for (const path of new Set([downloadsFolderOf(folders.mediaRoot, owner), downloads]))
          await ensurePrivateDir(path, { parents: false })
      else await mkdir(folder, { recursive: true, mode: 0o700 })
    } catch (error) {
      if (saveDir === undefined || errorCodeOf(error) === 'ENOSPC') throw diskError(error)
      throw badArgument('save_dir', `${JSON.stringify(saveDir)} cannot be saved to: ${reasonOf(error)}`, {
        cause: error,
        hint: 'Name a folder; svc creates it if it does not exist.',
      })
    }
    const held = await openFolderBelow(folder, '')
    try {
      // Checks the folder that was opened: somebody may have put a link at the path.
      const now = await realpath(held.path)
      await (saveDir === undefined ? resolveInside(folders.mediaRoot, now) : allow(now))
      return { ...held, name: call.local === true ? folder : now }
    } catch (error) {
      await held[Symbol.asyncDispose]()
      throw error
    }
  }
}

/**
 * Creates an empty file of that name, or of a shorter name if the file system does not accept one so long.
 */
async function createFile({ file_name, renamed }: SafeFileName, folder: HeldFolder) {
  const create = async (maxBytes?: number) => {
    const { path, handle } = await createUnique(folder.path, mark => {
      const name = cutName(file_name, mark, maxBytes)
      // The system checks the short path of the folder that is held. Callers use the long one.
      if (Buffer.byteLength(join(folder.name, name)) < longestPath) return name
      throw Object.assign(new Error('the path is too long'), { code: 'ENAMETOOLONG' })
    })
    await handle.close()
    return path
  }
  try {
    return { path: await create(), renamed }
  } catch (error) {
    if (errorCodeOf(error) !== 'ENAMETOOLONG') throw error
    const cut = `it was cut to the ${safeNameBytes} bytes that this disk accepts`
    return { path: await create(safeNameBytes), renamed: renamed === undefined ? cut : `${renamed}, ${cut}` }
  }
}
