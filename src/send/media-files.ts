/** What a send needs of media; the gateway gives it. */
import type { Account } from '../ilink/api.ts'
import type { UploadedMedia } from '../ilink/encode.ts'
import type { Call } from '../model/call.ts'
import type { SteadyFile } from '../model/media.ts'
import type { MediaContent, MediaKind } from '../model/message.ts'
import type { KeptFile } from '../storage/outbox.ts'

/** What sends for whom: the door's part of a call. */
export type Caller = Pick<Call, 'by' | 'signal' | 'local' | 'progress'>

/** A source of media that lies here now, staged: a readable file of known size and digest. */
export interface StagedFile extends SteadyFile {
  kind: MediaKind
  file_name: string
  /** What of the name that was given could not be kept. */
  renamed?: string
  /** Lower-case hex. */
  md5: string
}

export interface MediaFiles {
  readonly sources: {
    /** Whether a source that lies here can be staged, as far as that costs nothing. @throws SvcError as `stage` */
    look(content: MediaContent, caller: Caller): Promise<void>
    stage(content: MediaContent, caller: Caller): Promise<StagedFile>
  }
  /** Files that wait with their messages. */
  readonly kept: {
    /** Copies a staged file to where it stays until it is sent. */
    keep(file: StagedFile, signal: AbortSignal): Promise<KeptFile>
    /** @throws SvcError `invalid_arguments` when the file is gone or another one */
    open(file: KeptFile, kind: MediaKind): Promise<StagedFile>
    discard(files: readonly Pick<KeptFile, 'name'>[]): Promise<void>
  }
  /** @throws SvcError or ILinkError; nothing was sent to the user then */
  upload(
    account: Account,
    to: string,
    file: StagedFile,
    signal: AbortSignal,
    progress?: Caller['progress'],
  ): Promise<UploadedMedia>
}
