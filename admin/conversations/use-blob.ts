/** Loads media of a message while it is on screen. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type Message, mediaUrl, waits } from '../api.ts'
import { errorText } from '../errors.ts'
import { online } from '../live.ts'
import { type Blobbed, holdBlob, isHeld } from './blobs.ts'

export interface MediaProps {
  message: Message
  item: Message['items'][number]
  /** The index among the media of the message. */
  index: number
}

/** Returns the items of a message with their media indexes. */
export function mediaOf(message: Message): MediaProps[] {
  let media = 0
  return message.items.map(item => ({ message, item, index: item.has_media ? media++ : media }))
}

/** Whether the bytes are here or can be requested. */
export const isThere = ({ message, item }: MediaProps) => item.has_media || message.id < 0 || waits(message)

export interface Held {
  blob: Blobbed | undefined
  problem: string
  bytes: number
}

/** Media while it is on screen. It is loaded only if `wanted`, and again once the service is back. */
export function useBlob({ message, item, index }: MediaProps, wanted: boolean) {
  const held = useSignal<Held>({ blob: undefined, problem: '', bytes: 0 })
  const { id, status } = message
  const canAsk = item.has_media || waits(message)
  const tries = useSignal(0)
  const isOnline = online.value
  useEffect(() => {
    if (!isOnline || held.peek().problem === '') return
    held.value = { blob: undefined, problem: '', bytes: 0 }
    tries.value++
  }, [isOnline])
  useEffect(() => {
    // Unsent files of this page are cached. Files that others are sending cannot be requested yet.
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
    // The row id is stable, unlike the message id. A change of status retries: the file may exist after the
    // send.
  }, [id, index, wanted, canAsk, status, tries.value])
  return held
}
