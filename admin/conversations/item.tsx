/** An item of a message that is not text, as its kind needs it. */
import { Picture, Plain, Video } from './media.tsx'
import type { MediaProps } from './use-blob.ts'
import { Voice } from './voice.tsx'

export function Media(props: MediaProps) {
  const { kind } = props.item
  if (kind === 'IMAGE') return <Picture {...props} />
  if (kind === 'VIDEO') return <Video {...props} />
  if (kind === 'VOICE') return <Voice {...props} />
  return <Plain {...props} />
}
