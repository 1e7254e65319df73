/**
 * Media files of the CDN: the ciphertext of each piece in a file below `<dir>/media`, never whole in
 * memory. The AES code here is the sandbox's own: shared code would not show the mistakes of svc's client.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { createReadStream, writeSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, Readable } from 'node:stream'
import type { MediaKind } from '../model/message.ts'
import { ensurePrivateDir, removeQuietly, sweep } from '../platform/files.ts'
import { ownPath } from '../platform/own-names.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Core } from './core.ts'
import { type Fields, fieldsOf, newMediaId, newMediaParam, textOf } from './wire.ts'

/** A media file, or the reservation for one that is not uploaded yet. */
export interface MediaPiece {
  id: string
  upload_param?: string
  filekey?: string
  /** The `encrypt_query_param` of the download. */
  param: string
  kind: MediaKind
  key_hex: string
  raw_size: number
  cipher_size: number
  md5: string
  name?: string
  /** True if stored without encryption (images without a key). */
  plain: boolean
  ready: boolean
}

/** An upload that the CDN refuses; the message goes into the header `x-error-message`. */
export class UploadRefusedError extends Error {}

type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

const readBytes = 256 * 1024

/** Media files of users and bots. */
export class SandboxMedia extends RoomPart<{ core: Core }> {
  /** Removes the incomplete files of killed processes. */
  async sweep(): Promise<void> {
    await sweep(join(this.ports.core.dir, 'media'), /\.part$/, Number.POSITIVE_INFINITY)
  }

  /** Removes the pieces from before a time (Unix ms), with their files. */
  async removeOld(before: number): Promise<void> {
    const old = this.ports.core.db.all<PieceRow>`SELECT * FROM media WHERE created_at < ${before}`
    for (const { id } of old) {
      await removeQuietly(this.pathOf({ id: String(id) }))
      this.ports.core.db.run`DELETE FROM media WHERE id = ${id}`
    }
  }

  /** Reserves a piece for an upload that getuploadurl announced. */
  announce(
    piece: Pick<MediaPiece, 'filekey' | 'kind' | 'key_hex' | 'raw_size' | 'cipher_size' | 'md5'>,
  ): MediaPiece {
    return this.#insert({ ...piece, upload_param: newMediaParam(), plain: false, ready: false })
  }

  findByUpload(param: string, filekey: string): MediaPiece | undefined {
    return toPiece(
      this.ports.core.db
        .get<PieceRow>`SELECT * FROM media WHERE upload_param = ${param} AND filekey = ${filekey}`,
    )
  }

  findByParam(param: string): MediaPiece | undefined {
    return toPiece(this.ports.core.db.get<PieceRow>`SELECT * FROM media WHERE param = ${param} AND ready = 1`)
  }

  findById(id: string): MediaPiece | undefined {
    return toPiece(this.ports.core.db.get<PieceRow>`SELECT * FROM media WHERE id = ${id} AND ready = 1`)
  }

  pathOf({ id }: Pick<MediaPiece, 'id'>): string {
    return ownPath(join(this.ports.core.dir, 'media'), 'piece', id)
  }

  /**
   * Stores an upload and checks it as it streams: whole AES blocks, the announced sizes, the announced MD5
   * of the plain bytes.
   *
   * @throws UploadRefusedError with the reason
   */
  async receive(piece: MediaPiece, body: Bytes): Promise<void> {
    const deep = this.ports.core.switches.upload_check === 'full'
    const decipher = createDecipheriv('aes-128-ecb', Buffer.from(piece.key_hex, 'hex'), null)
    const md5 = createHash('md5')
    let sizeBytes = 0
    let rawBytes = 0
    const plain = (bytes: Uint8Array) => {
      rawBytes += bytes.length
      md5.update(bytes)
    }
    await this.#write(piece, async write => {
      for await (const chunk of body) {
        sizeBytes += chunk.length
        if (sizeBytes > piece.cipher_size) throw new UploadRefusedError('body larger than filesize')
        if (deep) plain(decipher.update(chunk))
        await write(chunk)
      }
      if (sizeBytes !== piece.cipher_size) throw new UploadRefusedError('body size differs from filesize')
      if (!deep) return
      if (sizeBytes % 16 !== 0) throw new UploadRefusedError('body is not whole AES blocks')
      try {
        plain(decipher.final())
      } catch {
        throw new UploadRefusedError('body does not decrypt with aeskey')
      }
      if (rawBytes !== piece.raw_size) throw new UploadRefusedError('decrypted size differs from rawsize')
      if (md5.digest('hex') !== piece.md5.toLowerCase()) throw new UploadRefusedError('rawfilemd5 mismatch')
    })
    this.ports.core.db.run`UPDATE media SET ready = 1 WHERE id = ${piece.id}`
  }

  /** Encrypts and stores a file that the user sends from the phone. */
  async add(kind: MediaKind, name: string | undefined, body: Bytes): Promise<MediaPiece> {
    const plain = kind === 'image' && this.ports.core.switches.image_key === 'none'
    const key = randomBytes(16)
    const cipher = createCipheriv('aes-128-ecb', key, null)
    const md5 = createHash('md5')
    const piece = this.#insert({
      kind,
      name,
      plain,
      ready: false,
      key_hex: key.toString('hex'),
      raw_size: 0,
      cipher_size: 0,
      md5: '',
    })
    let rawBytes = 0
    let storedBytes = 0
    await this.#write(piece, async write => {
      const keep = (bytes: Uint8Array) => {
        storedBytes += bytes.length
        return write(bytes)
      }
      for await (const chunk of body) {
        rawBytes += chunk.length
        md5.update(chunk)
        await keep(plain ? chunk : cipher.update(chunk))
      }
      if (!plain) await keep(cipher.final())
    })
    const digest = md5.digest('hex')
    this.ports.core.db.run`UPDATE media SET raw_size = ${rawBytes}, cipher_size = ${storedBytes},
      md5 = ${digest}, ready = 1 WHERE id = ${piece.id}`
    return { ...piece, raw_size: rawBytes, cipher_size: storedBytes, md5: digest, ready: true }
  }

  /** Opens the decrypted bytes of a piece. */
  open(piece: MediaPiece): ReadableStream<Uint8Array> {
    const file = createReadStream(this.pathOf(piece), { highWaterMark: readBytes })
    const decipher = createDecipheriv('aes-128-ecb', Buffer.from(piece.key_hex, 'hex'), null)
    // The streams pass on an error, and the reader's cancel.
    const bytes: unknown = Readable.toWeb(piece.plain ? file : pipeline(file, decipher, () => {}))
    return bytes as ReadableStream<Uint8Array>
  }

  /** Returns the piece that an item refers to; undefined if the CDN does not know it. */
  findForItem(item: Fields): MediaPiece | undefined {
    const media = mediaOf(item)
    return media && this.findByParam(textOf(media.encrypt_query_param))
  }

  /** Returns why the user never sees this item although WeChat accepts it; undefined if the user sees it. */
  hiddenReasonOf(item: Fields): string | undefined {
    const media = mediaOf(item)
    if (!media) return [2, 4, 5].includes(Number(item.type)) ? 'the item carries no media' : undefined
    const piece = this.findByParam(textOf(media.encrypt_query_param))
    if (!piece) return 'encrypt_query_param is not known to the CDN'
    if (media.encrypt_type !== 1) return 'encrypt_type is not 1'
    const spelled = Buffer.from(textOf(media.aes_key), 'base64').toString('latin1')
    if (spelled.toLowerCase() !== piece.key_hex.toLowerCase()) {
      return 'aes_key is not base64 of the hex of the key used for the upload'
    }
    return undefined
  }

  #insert(fields: Omit<MediaPiece, 'id' | 'param'>): MediaPiece {
    const piece: MediaPiece = { id: newMediaId(), param: newMediaParam(), ...fields }
    this.ports.core.db.run`INSERT INTO media (id, upload_param, filekey, param, kind, key_hex, raw_size,
      cipher_size, md5, name, plain, ready, created_at)
      VALUES (${piece.id}, ${piece.upload_param}, ${piece.filekey}, ${piece.param}, ${piece.kind},
      ${piece.key_hex}, ${piece.raw_size}, ${piece.cipher_size}, ${piece.md5}, ${piece.name},
      ${piece.plain ? 1 : 0}, ${piece.ready ? 1 : 0}, ${this.ports.core.now()})`
    return piece
  }

  /**
   * Writes to a temporary file and renames it: a URL may be posted twice at the same time, and no partial
   * file may be served.
   */
  async #write(
    piece: MediaPiece,
    fill: (write: (bytes: Uint8Array) => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const folder = join(this.ports.core.dir, 'media')
    await ensurePrivateDir(folder)
    const reserve = await this.ports.core.space.startCheck(folder, piece.cipher_size)
    let written = 0
    const partial = `${this.pathOf(piece)}.${randomBytes(4).toString('hex')}.part`
    const file = await open(partial, 'wx', 0o600)
    try {
      await fill(async bytes => {
        written += bytes.length
        await reserve(written)
        // Synchronous writes: during an await Bun reads more of the body into memory; 1 GiB then costs 85
        // MiB instead of 26.
        for (let at = 0; at < bytes.length; ) at += writeSync(file.fd, bytes, at)
      })
      await file.close()
      await rename(partial, this.pathOf(piece))
    } catch (error) {
      await file.close().catch(() => {})
      await removeQuietly(partial)
      throw error
    }
  }
}

const mediaOf = (item: Fields): Fields | undefined => {
  for (const name of ['image_item', 'voice_item', 'file_item', 'video_item']) {
    const { media } = fieldsOf(item[name])
    if (media) return fieldsOf(media)
  }
  return undefined
}

/** A piece as a row of the table `media`. */
type PieceRow = Omit<MediaPiece, 'plain' | 'ready'> & { plain: number; ready: number }

const toPiece = (row: PieceRow | undefined): MediaPiece | undefined =>
  row && { ...row, plain: row.plain === 1, ready: row.ready === 1 }
