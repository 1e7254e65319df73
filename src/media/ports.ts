/** What the parts of this room work with; each takes what it uses. */
import type { Api } from '../ilink/api.ts'
import type { Cdn } from '../ilink/cdn.ts'
import type { FreeSpace } from '../platform/free-space.ts'
import type { Views } from '../receive/view.ts'
import type { MediaPlaces } from '../storage/media-place.ts'
import type { Entries } from '../storage/outbox.ts'
import type { MessageLog } from '../storage/store.ts'
import type { Folders } from './own-files.ts'

export interface MediaPorts {
  upstream: MediaUpstream
  store: { log: MessageLog; outbox: Pick<Entries, 'fileOf' | 'files'> }
  views: Views
  folders: Folders
  places: MediaPlaces
  space: FreeSpace
  maxUploadBytes: number
}

/** Where media goes up, and comes down from. */
export interface MediaUpstream {
  api: Pick<Api, 'getUploadUrl'>
  cdn: Cdn
  cdnUrl: string
  /** Whether an address is the configured upstream or CDN, which the address guard lets pass. */
  trusted(url: URL): boolean
}
