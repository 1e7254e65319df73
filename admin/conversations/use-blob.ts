/** Media of a message while it is on screen. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type Message, mediaUrl, waits } from '../api.ts'
import { errorText } from '../errors.ts'
import { type Blobbed, holdBlob, isHeld } from './blobs.ts'

export interface MediaProps {
  message: Message
  item: Message['items'][number]
  /** Which of the message's media. */
  index: number
}

/** The media of a message, each with its place among them. */
export function mediaOf(message: Message): MediaProps[] {
  let media = 0
  return message.items.map(item => ({ message, item, index: item.has_media ? media++ : media }))
}

/** Whether the bytes are there, or can be asked for. */
export const isThere = ({ message, item }: MediaProps) => item.has_media || message.id < 0 || waits(message)

export interface Held {
  blob: Blobbed | undefined
  problem: string
  bytes: number
}

/** Media while it is on screen; `wanted` says whether to load it. */
export function useBlob({ message, item, index }: MediaProps, wanted: boolean) {
  const held = useSignal<Held>({ blob: undefined, problem: '', bytes: 0 })
  const { id, status } = message
  const canAsk = item.has_media || waits(message)
  useEffect(() => {
    // The bytes of this page's own files are here; of others that are on their way the service has none to give.
    if (!wanted || !(canAsk || isHeld(id, index))) return
    let gone = false
    const hold = holdBlob(id, index, mediaUrl(message, index), loaded => {
      if (!gone) held.value = { ...held.value, bytes: loaded }
    })
    if (hold.ready) held.value = { blob: hold.ready, problem: '', bytes: 0 }
    else
      hold.promise.then(
        blob => {
          if (!gone) held.value = { blob, problem: '', bytes: blob.size }
        },
        error => {
          if (!gone && !(error instanceof DOMException))
            held.value = { blob: undefined, problem: errorText(error).title, bytes: 0 }
        },
      )
    return () => {
      gone = true
      hold.release()
    }
    // A row keeps its bytes when its message id changes; what was not found may be there once it has been sent.
  }, [id, index, wanted, canAsk, status])
  return held
}
