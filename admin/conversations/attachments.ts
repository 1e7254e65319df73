/** Files that are about to be sent: they go up at once, so that sending them later takes no time. */
import { type Signal, signal } from '@preact/signals'
import { ApiError, upload } from '../api.ts'
import { status } from '../live.ts'

type AttachedKind = 'image' | 'video' | 'file'

export interface Attachment {
  id: number
  file: File
  kind: AttachedKind
  /** Of a picture. */
  preview: string | undefined
  /** Share that is up, 0 to 1. */
  progress: Signal<number>
  error: Signal<unknown>
  /** Settles when it is up, or failed. */
  uploaded: Promise<string | undefined>
  abort: AbortController
}

/** What WeChat shows as such; anything else goes as a file. */
function kindOf({ type }: Pick<File, 'type'>): AttachedKind {
  if (/^image\/(png|jpeg|gif|webp|bmp)$/.test(type)) return 'image'
  return /^video\/(mp4|quicktime)$/.test(type) ? 'video' : 'file'
}

let lastAttachment = 0

/** Takes a file, and begins to upload it. */
export function attachmentOf(file: File): Attachment {
  const kind = kindOf(file)
  const one: Attachment = {
    ...{ id: ++lastAttachment, file, kind },
    preview: kind === 'image' ? URL.createObjectURL(file) : undefined,
    ...{ progress: signal(0), error: signal(undefined) },
    ...{ uploaded: Promise.resolve(undefined), abort: new AbortController() },
  }
  uploadAgain(one)
  return one
}

/** Uploads it, anew after a failure. */
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

/** It is not wanted any more. */
export function letGo({ abort, preview }: Attachment): void {
  abort.abort()
  if (preview) URL.revokeObjectURL(preview)
}
