/** Files on the machine of the program. Loaded only when a call names one, as a browser has none. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { basename, extname, join, resolve } from 'node:path'
import { badArgument } from '../model/error.ts'
import type { AcceptedUpload, Downloaded } from '../model/media.ts'
import { attempt } from '../platform/fields.ts'
import type { CallPlan, Http, OpenedAnswer } from './http.ts'
import { routes } from './routes.ts'

const blockBytes = 128 * 1024

/** A file to upload. */
interface UploadedFile {
  readonly path: string
  /** The argument that names it. */
  readonly field: string
  readonly file_name: string | undefined
}

/** Uploads a file. @throws SvcError `invalid_arguments` if it cannot be read */
export async function uploadFile(
  http: Http,
  { path, field, file_name = basename(path) }: UploadedFile,
  signal: AbortSignal | undefined,
): Promise<{ upload_id: string; file_name: string }> {
  const cannotRead = (cause: unknown) => badArgument(field, `cannot read ${path}`, { cause })
  await open(path).then(
    file => file.close(),
    cause => {
      throw cannotRead(cause)
    },
  )
  const openBody: CallPlan['openBody'] = onProgress => readBlocks(path, onProgress)
  // An upload that nobody names is removed after a day.
  const plan = { isRepeatable: true, openBody, signal }
  const { upload_id } = await http.json<AcceptedUpload>(routes.calls.uploadMedia, { file_name }, plan)
  return { upload_id, file_name }
}

function readBlocks(path: string, onProgress: () => void): ReadableStream<Uint8Array> {
  const opening = open(path)
  const close = async () => (await opening).close()
  return new ReadableStream(
    {
      async pull(controller) {
        // Node 18 reads nothing without the other arguments.
        const { bytesRead, buffer } = await (await opening).read(
          new Uint8Array(blockBytes),
          0,
          blockBytes,
          null,
        )
        onProgress()
        if (bytesRead > 0) return controller.enqueue(buffer.subarray(0, bytesRead))
        await close()
        controller.close()
      },
      cancel: close,
    },
    { highWaterMark: 0 },
  )
}

/** Saves an answer as a file in a folder. Overwrites nothing. */
export async function saveFile(
  { body, headers }: OpenedAnswer,
  folder: string,
  digest: 'sha256' | undefined,
  onProgress: () => void,
): Promise<Downloaded> {
  await mkdir(folder, { recursive: true })
  const part = join(folder, `.svc.${randomBytes(4).toString('hex')}.part`)
  const hash = digest && createHash(digest)
  let size = 0
  const file = await open(part, 'wx', 0o600)
  try {
    const reader = body.getReader()
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      await file.writeFile(read.value)
      hash?.update(read.value)
      onProgress()
      size += read.value.byteLength
    }
    await file.sync()
    await file.close()
    const path = await createFile(resolve(folder), fileNameOf(headers))
    // Replaces our own empty file: from then on the name is the whole file.
    await rename(part, path)
    const content_type = headers.get('content-type') ?? 'application/octet-stream'
    return {
      path,
      size,
      file_name: basename(path),
      content_type,
      ...(hash && { sha256: hash.digest('hex') }),
    }
  } catch (error) {
    await file.close().catch(() => {})
    await rm(part, { force: true })
    throw error
  }
}

/** Creates an empty file under this name, or with a number if there is one. @returns its path */
async function createFile(folder: string, name: string): Promise<string> {
  const end = extname(name)
  for (let number = 0; ; number++) {
    const path = join(folder, number === 0 ? name : `${basename(name, end)}-${number}${end}`)
    try {
      await (await open(path, 'wx', 0o600)).close()
      return path
    } catch (error) {
      if (Object(error).code !== 'EEXIST') throw error
    }
  }
}

/** Returns the name that the service gives the file. It is never outside of the folder. */
function fileNameOf(headers: Headers): string {
  const given = headers.get('content-disposition') ?? ''
  const [, encoded = ''] = /filename\*=UTF-8''([^;]+)/i.exec(given) ?? []
  const [, quoted = ''] = /filename="((?:[^"\\]|\\.)*)"/i.exec(given) ?? []
  const name = attempt(() => decodeURIComponent(encoded)) || quoted.replace(/\\(.)/g, '$1')
  return name.replace(/^\.+|[\p{Cc}<>:"/\\|?*]/gu, '_') || 'file'
}
