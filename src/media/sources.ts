/** Media sources: a path, a URL, data or an upload. Each is staged as one file that stays open. */

import { Buffer } from 'node:buffer'
import { rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { type Call, createByteCount } from '../model/call.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { MediaContent } from '../model/message.ts'
import { fetchPublic } from '../platform/fetch.ts'
import { keepStream, mediaFolder } from '../platform/file-stream.ts'
import { RoomPart } from '../platform/runtime.ts'
import { createSteadyFile, md5Of, type OpenedFile, openRegularFile } from '../platform/steady-file.ts'
import type { StagedFile } from '../send/media-files.ts'
import { requireImage } from './content-type.ts'
import { fileNameOf } from './file-name.ts'
import { requireAllowedPath } from './own-files.ts'
import type { MediaPorts } from './ports.ts'
import type { Uploads } from './uploads.ts'

type SourcePorts = Pick<MediaPorts, 'upstream' | 'folders' | 'space' | 'maxUploadBytes'> & {
  uploads: Uploads
}

/** Longest base64 data in a JSON body, in decoded bytes. */
const maxDataBytes = 16 * 1024 * 1024
const tooMuchDataError = () =>
  new SvcError('payload_too_large', `expected at most ${maxDataBytes / 1024 ** 2} MiB of base64`, {
    field: 'media.data',
    next: { action: 'upload' },
  })
const urlTimeoutMs = 10 * 60_000

type Caller = Pick<Call, 'by' | 'signal' | 'local' | 'below' | 'countBytes'>

export class Sources extends RoomPart<SourcePorts> {
  /**
   * Checks whether a source can be staged, as far as that is cheap. Does not consume it.
   *
   * @throws SvcError as `stage`
   */
  async look(content: MediaContent, call: Caller): Promise<void> {
    requireOneSource(content)
    if (content.path !== undefined) await (await this.#openPath(content.path, call)).handle.close()
    if (content.upload_id !== undefined)
      await (await this.ports.uploads.open(content.upload_id, content, call.by)).release()
  }

  /**
   * Stages a source as an open file.
   *
   * @throws SvcError `invalid_arguments` (not exactly one source, unreadable, bad base64, no image),
   * `forbidden` (outside the media root, a file of svc itself, blocked address), `payload_too_large`,
   * `not_found` (unknown or expired upload id)
   */
  async stage(content: MediaContent, call: Caller): Promise<StagedFile> {
    const file = await this.#stageUnchecked(content, call)
    if (content.kind !== 'image') return file
    try {
      await requireImage(file)
      return file
    } catch (error) {
      await file.release()
      throw error
    }
  }

  async #stageUnchecked(content: MediaContent, call: Caller): Promise<StagedFile> {
    requireOneSource(content)
    if (content.path !== undefined) return this.#stagePath(content, content.path, call)
    if (content.upload_id !== undefined) {
      const file = await this.ports.uploads.open(content.upload_id, content, call.by)
      this.ports.uploads.markUsed(content.upload_id)
      return file
    }
    if (content.url !== undefined) return this.#stageUrl(content, content.url, call)
    return this.#stageData(content, content.data ?? '', call)
  }

  async #stagePath(content: MediaContent, path: string, call: Caller): Promise<StagedFile> {
    const opened = await this.#openPath(path, call)
    try {
      const md5 = await md5Of(opened, call.signal)
      const named = fileNameOf(content.file_name ?? basename(path), 'file')
      return { ...createSteadyFile(opened, { md5 }), ...named, kind: content.kind, md5 }
    } catch (error) {
      await opened.handle.close()
      throw error
    }
  }

  async #openPath(path: string, call: Caller): Promise<OpenedFile> {
    const { folders, maxUploadBytes } = this.ports
    if (/^https?:\/\//.test(path))
      throw badArgument('media.path', 'expected a path, got a URL', {
        hint: 'Give a URL as an entry of media: {"kind": "image", "url": "https://…"}.',
      })
    const allowed = { path, field: 'media.path', refusal: "svc's own files are not sent" }
    return openRegularFile(path, {
      maxBytes: maxUploadBytes,
      below: call.below,
      singleLink: call.local !== true,
      checkPath: () => requireAllowedPath(allowed, folders, call),
    })
  }

  async #stageUrl(content: MediaContent, url: string, call: Caller): Promise<StagedFile> {
    const { maxUploadBytes, upstream } = this.ports
    const fetched = await fetchPublic(url, {
      maxBytes: maxUploadBytes,
      timeoutMs: urlTimeoutMs,
      signal: call.signal,
      allow: url => upstream.trusted(url),
    })
    return this.#stageTemporary(content, fetched.body, fetched.fileName, maxUploadBytes, call)
  }

  async #stageData(content: MediaContent, data: string, call: Caller): Promise<StagedFile> {
    // Rejects far too long data before the costlier checks.
    if (data.length > maxDataBytes * 2) throw tooMuchDataError()
    const padded = data.replace(/^data:[^,]*;base64,/i, '').replace(/\s/g, '')
    // A loop, since a regular expression that searches the last run of `=` restarts at each `=`.
    let end = padded.length
    while (padded[end - 1] === '=') end--
    const text = padded.slice(0, end)
    if (!/^[A-Za-z0-9+/_-]*$/.test(text) || text.length % 4 === 1)
      throw badArgument('media.data', 'expected base64')
    const bytes = Buffer.from(text, text.includes('-') || text.includes('_') ? 'base64url' : 'base64')
    if (bytes.length > maxDataBytes) throw tooMuchDataError()
    return this.#stageTemporary(content, new Blob([bytes]).stream(), undefined, maxDataBytes, call)
  }

  async #stageTemporary(
    content: MediaContent,
    body: ReadableStream<Uint8Array>,
    name: string | undefined,
    maxBytes: number,
    call: Caller,
  ): Promise<StagedFile> {
    const folder = await mediaFolder(this.ports.folders.mediaRoot, 'uploads')
    const path = join(folder, `${crypto.randomUUID()}.tmp`)
    const { digests } = await keepStream(body, path, {
      digests: ['md5'],
      maxBytes,
      space: this.ports.space,
      signal: call.signal,
      progress: createByteCount(call),
    })
    const remove = () => rm(path, { force: true })
    try {
      const named = fileNameOf(content.file_name ?? name ?? '', content.kind)
      const opened = await openRegularFile(path, { maxBytes })
      return { ...createSteadyFile(opened, { remove }), ...named, kind: content.kind, md5: digests.md5! }
    } catch (error) {
      await remove()
      throw error
    }
  }
}

function requireOneSource(content: MediaContent): void {
  const sources = (['path', 'url', 'data', 'upload_id'] as const).filter(key => content[key] !== undefined)
  if (sources.length === 1) return
  throw badArgument('media', 'expected exactly one of path, url, data, upload_id')
}
