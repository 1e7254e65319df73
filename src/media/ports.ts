/** Dependencies of this room's parts; each part takes those that it uses. */
import type { Api } from '../ilink/api.ts'
import type { Cdn } from '../ilink/cdn.ts'
import type { FreeSpace } from '../platform/free-space.ts'
import type { Views } from '../receive/view.ts'
import type { MediaStores } from '../storage/media-store.ts'
import type { OutboxEntries } from '../storage/outbox.ts'
import type { MessageLog } from '../storage/store.ts'
import type { TopicStore } from '../storage/topics.ts'
import type { MediaFolders } from './own-files.ts'

export interface MediaPorts {
  upstream: MediaUpstream
  store: {
    log: MessageLog
    outbox: Pick<OutboxEntries, 'fileOf' | 'listFiles'>
    topics: Pick<TopicStore, 'listFiles'>
  }
  views: Views
  folders: MediaFolders
  places: MediaStores
  space: FreeSpace
  maxUploadBytes: number
  /** Whether a key has ended, by its id. */
  isKeyOver(id: string): Promise<boolean>
  /** As `familyOf` of `storage/keys.ts`. */
  familyOf(id: string): Promise<ReadonlySet<string>>
}

/** Where media are uploaded to and downloaded from. */
export interface MediaUpstream {
  api: Pick<Api, 'getUploadUrl'>
  cdn: Cdn
  cdnUrl: string
  /** Returns true for an address of the configured API or CDN, which the address guard lets pass. */
  trusted(url: URL): boolean
}
