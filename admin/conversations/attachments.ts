/** Files to be sent. They are uploaded at once, so that the send itself is fast. */
import { type Signal, signal } from '@preact/signals'
import { ApiError, upload } from '../api.ts'
import { status } from '../live.ts'

type AttachedKind = 'image' | 'video' | 'file'

export interface Attachment {
  id: number
  file: File
  kind: AttachedKind
  /** Object URL of a picture. */
  preview: string | undefined
  /** The uploaded share, 0 to 1. */
  progress: Signal<number>
  error: Signal<unknown>
  /** Resolves with the upload id, or with undefined after a failure. */
  uploaded: Promise<string | undefined>
  abort: AbortController
}

/** Returns the kind that WeChat can show; anything else is sent as a file. */
function kindOf({ type }: Pick<File, 'type'>): AttachedKind {
  if (/^image\/(png|jpeg|gif|webp|bmp)$/.test(type)) return 'image'
  return /^video\/(mp4|quicktime)$/.test(type) ? 'video' : 'file'
}

let lastAttachment = 0

/** Makes an attachment of a file and starts its upload. */
export function attachmentOf(file: File): Attachment {
  const kind = kindOf(file)
  const one: Attachment = {
    id: ++lastAttachment,
    file,
    kind,
    preview: kind === 'image' ? URL.createObjectURL(file) : undefined,
    progress: signal(0),
    error: signal(undefined),
    uploaded: Promise.resolve(undefined),
    abort: new AbortController(),
  }
  uploadAgain(one)
  return one
}

/** Uploads the file, or tries again after a failure. */
export function uploadAgain(one: Attachment): void {
  const limit = status.value?.max_upload_bytes
  one.error.value = undefined
  one.uploaded = (async () => {
    try {
      if (limit !== undefined && one.file.size > limit)
        throw new ApiError(413, { code: 'payload_too_large', detail: '' })
      const report = (share: number) => {
        one.progress.value = share
      }
      const { upload_id } = await upload(one.file, report, one.abort.signal)
      one.progress.value = 1
      return upload_id
    } catch (error) {
      one.error.value = error
      return undefined
    }
  })()
}

/** Drops an attachment: stops its upload and frees its preview. */
export function letGo({ abort, preview }: Attachment): void {
  abort.abort()
  if (preview) URL.revokeObjectURL(preview)
}
