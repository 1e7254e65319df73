/** What users sent comes down decrypted: as a stream, or as a file that overwrites nothing. */
import { mkdir, rename, rm } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { OpenedDownload } from '../ilink/cdn.ts'
import { type MediaReference, mediaOf } from '../ilink/decode.ts'
import type { Call } from '../model/call.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Downloaded } from '../model/media.ts'
import { defined } from '../platform/fields.ts'
import { diskError, keepStream, staleMs } from '../platform/file-stream.ts'
import { createUnique, ensurePrivateDir, errorCodeOf, insideDir, onDisk, sweep } from '../platform/files.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import { reasonOf } from '../platform/system-error.ts'
import { extensionOf, sniffType, typeOfName } from './content-type.ts'
import { cutName, type FileName, fileNameOf, nameOnDisk, partialName, shortNameBytes } from './file-name.ts'
import { allowedPath } from './own-files.ts'
import type { MediaPorts } from './ports.ts'

export interface DownloadRequest {
  message_id: string
  save_dir?: string
  /** Which media of the message, counted from 0 over the items that have media. */
  item: number
  /** Take this of the content on the way: it costs as much time as everything else. */
  digest?: 'sha256'
}

export interface OpenRequest {
  message_id: string
  item: number
  /** The exact size of a video or voice is needed, for a player that seeks: one of up to 64 MiB is read to count it. */
  sized?: boolean
}

/** More is not read only to count it. */
const countedBytes = 64 * 1024 * 1024
/** Counts that are remembered. */
const rememberedCounts = 1000

/** Decrypted media on its way out. The stream must be read to its end or cancelled. */
export interface OpenedMedia extends FileName {
  stream: ReadableStream<Uint8Array>
  content_type: string
  /** Bytes, where upstream told. */
  size?: number
}

type DownloadPorts = Pick<MediaPorts, 'upstream' | 'store' | 'views' | 'folders' | 'space'>

export class Downloads {
  readonly #ports: DownloadPorts
  readonly #runtime: Runtime
  /** Bytes of videos and voices, by item and message: counted once for all who ask at the same time. */
  readonly #counts = new Map<string, Promise<number | undefined>>()

  constructor(ports: DownloadPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * Opens the media of a message as decrypted bytes.
   *
   * @throws SvcError `message_not_found`, `no_media`, `media_expired`, `upstream_error`
   */
  async open(request: OpenRequest, signal: AbortSignal): Promise<OpenedMedia> {
    const found = await this.#find(request.message_id, request.item)
    const { stream, size } = await this.#fetch(found, request, signal)
    const named = found.fileName === undefined ? undefined : fileNameOf(found.fileName, 'file')
    const fromName = named && (await typeOfName(named.file_name))
    if (named && fromName) return { ...named, stream, content_type: fromName, size }
    const { type, rest } = await sniffType(stream)
    const unnamed = `${found.kind}-${request.message_id.replace(/[^\w.-]/g, '_')}.${await extensionOf(type)}`
    const own = named ?? fileNameOf(unnamed, found.kind)
    return { ...own, stream: rest, content_type: type, size }
  }

  /**
   * The same of the one piece that a sent message has.
   *
   * @throws SvcError as `open`, but `no_media` for an unknown row
   */
  async openSent(
    { row: id, sized }: { row: number; sized?: boolean },
    signal: AbortSignal,
  ): Promise<OpenedMedia> {
    const [row] = await this.#ports.store.log.byIds([id])
    if (!row) throw new SvcError('no_media', 'there is no such message')
    return this.open({ message_id: row.message_id, item: 0, sized }, signal)
  }

  /**
   * Saves the media of a message; an existing file is never overwritten.
   *
   * @throws SvcError as `open`, and `forbidden` for a folder outside the media root or of svc's own
   */
  async download(request: DownloadRequest, call: Call): Promise<Downloaded> {
    using either = linked(call.signal, this.#runtime.closing)
    const { signal } = either
    await this.#find(request.message_id, request.item)
    const folder = await this.#saveFolder(request.save_dir, call)
    const { stream, content_type, size, ...named } = await this.open(request, signal)
    const onThisDisk = nameOnDisk(named)
    const { file_name } = onThisDisk
    const id = crypto.randomUUID()
    const partial = join(folder, `.${id.slice(9)}.${id.slice(0, 8)}.part`)
    const progress = (done: number) => call.progress?.({ what: `download ${file_name}`, done, total: size })
    progress(0)
    const written = await keepStream(stream, partial, {
      ...{ digests: request.digest ? [request.digest] : [], signal, space: this.#ports.space, size },
      ...{ durable: true, collected: true, progress },
    })
    try {
      const { path, renamed } = await placeFor(onThisDisk, folder)
      // Over our own empty placeholder: a reader that finds the name finds the whole file a moment later.
      await rename(partial, path)
      const { sha256 } = written.digests
      return defined({
        path,
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
    const { cdn, cdnUrl } = this.#ports.upstream
    const isCounted = sized && (found.kind === 'video' || found.kind === 'voice')
    const size = isCounted ? await this.#countOf(`${item} ${message_id}`, found) : undefined
    return await cdn.download({ ...found, size: size ?? found.size }, { cdnUrl, signal })
  }

  #countOf(key: string, found: MediaReference): Promise<number | undefined> {
    const known = this.#counts.get(key)
    if (known) return known
    const [oldest] = this.#counts.keys()
    if (oldest !== undefined && this.#counts.size >= rememberedCounts) this.#counts.delete(oldest)
    const count = this.#counted(found)
    this.#counts.set(key, count)
    count.catch(() => this.#counts.delete(key))
    return count
  }

  /** @returns undefined where it is too large */
  async #counted(found: MediaReference): Promise<number | undefined> {
    const { cdn, cdnUrl } = this.#ports.upstream
    if (found.size !== undefined && found.size > countedBytes) return undefined
    const { stream, size } = await cdn.download(found, { cdnUrl, signal: this.#runtime.closing })
    if (size !== undefined) {
      await stream.cancel()
      return size
    }
    let bytes = 0
    for await (const chunk of stream) {
      bytes += chunk.length
      if (bytes > countedBytes) return undefined
    }
    return bytes
  }

  /** Removes what a crash left half written. */
  async sweep(): Promise<void> {
    const { clock } = this.#runtime
    const { folders } = this.#ports
    await sweep(join(folders.mediaRoot, 'downloads'), partialName, clock.now() - staleMs)
  }

  async #find(messageId: string, item: number): Promise<MediaReference> {
    const { store, views } = this.#ports
    const [row] = (await store.log.byMessageIds([messageId])).rows
    if (!row) throw await this.#unknown(messageId)
    const found = mediaOf(row.raw, item)
    if (found) return found
    const count = (await views.of(row)).items.filter(part => part.has_media).length
    throw new SvcError(
      'no_media',
      count === 0
        ? 'this message has no media'
        : `this message has ${count} media, counted from 0; there is no ${item}`,
    )
  }

  /** Every message shows its row id before its `message_id`: a caller that took the wrong one is told the right one. */
  async #unknown(messageId: string): Promise<SvcError> {
    const none = `there is no message ${messageId}`
    const isRowId = /^\d{1,15}$/.test(messageId)
    const [meant] = isRowId ? await this.#ports.store.log.byIds([Number(messageId)]) : []
    if (!meant) return new SvcError('message_not_found', none)
    const { message_id } = meant
    return new SvcError('message_not_found', `${none}; that is the row id of message ${message_id}`, {
      hint: `Use its message_id, ${message_id}.`,
      details: { message_id },
    })
  }

  /** The folder to save into, made when there is none. Its rights are its owner's business when it was there. */
  async #saveFolder(given: string | undefined, call: Pick<Call, 'local'>): Promise<string> {
    const { folders } = this.#ports
    const usual = join(folders.mediaRoot, 'downloads')
    const refusal = "nothing is saved among svc's own files"
    const judged = (path: string) => allowedPath({ path, field: 'save_dir', refusal }, folders, call)
    const real = given === undefined ? usual : await judged(given)
    // The user gets the name that was given.
    const folder = given !== undefined && call.local === true ? await onDisk(resolve(given)) : real
    try {
      if (folder === usual) await ensurePrivateDir(usual, { parents: false })
      else await mkdir(folder, { recursive: true, mode: 0o700 })
    } catch (error) {
      if (given === undefined || errorCodeOf(error) === 'ENOSPC') throw diskError(error)
      throw badArgument('save_dir', `${JSON.stringify(given)} cannot be saved to: ${reasonOf(error)}`, {
        cause: error,
        hint: 'Name a folder; one that is not there yet is made.',
      })
    }
    // Once more now that it is there: a link may have been put in its way.
    const now = given === undefined ? await insideDir(folders.mediaRoot, usual) : await judged(folder)
    return call.local === true ? folder : now
  }
}

/** An empty file of that name; of a shorter one where the file system does not take so long a name. */
async function placeFor({ file_name, renamed }: FileName, folder: string) {
  const create = async (most?: number) => {
    const { path, handle } = await createUnique(folder, mark => cutName(file_name, mark, most))
    await handle.close()
    return path
  }
  try {
    return { path: await create(), renamed }
  } catch (error) {
    if (errorCodeOf(error) !== 'ENAMETOOLONG') throw error
    const cut = `it was cut to the ${shortNameBytes} bytes that this disk takes`
    return { path: await create(shortNameBytes), renamed: renamed === undefined ? cut : `${renamed}, ${cut}` }
  }
}
