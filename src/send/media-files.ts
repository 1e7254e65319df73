/** What a send needs from the media room. The gateway passes it in. */
import type { Account } from '../ilink/api.ts'
import type { UploadedMedia } from '../ilink/encode.ts'
import type { Call } from '../model/call.ts'
import type { SteadyFile } from '../model/media.ts'
import type { MediaContent, MediaKind } from '../model/message.ts'
import type { KeptFile } from '../storage/outbox.ts'

/** The part of a call that a send needs: who calls, and how to abort or report progress. */
export type SendCaller = Pick<
  Call,
  'by' | 'address' | 'requestId' | 'signal' | 'local' | 'below' | 'progress' | 'countBytes'
>

/** A media source that is ready on this machine: a readable file of known size and digest. */
export interface StagedFile extends SteadyFile {
  kind: MediaKind
  file_name: string
  /** The original name, if a part of it could not be kept. */
  renamed?: string
  /** Lower-case hex. */
  md5: string
}

export interface MediaFiles {
  readonly sources: {
    /** Checks a local source, as far as that is free of cost. @throws SvcError as `stage` */
    look(content: MediaContent, caller: SendCaller): Promise<void>
    stage(content: MediaContent, caller: SendCaller): Promise<StagedFile>
  }
  /** Files that wait together with their messages. */
  readonly kept: {
    /** Copies a staged file to the place where it stays until it is sent. */
    keep(file: StagedFile, signal: AbortSignal): Promise<KeptFile>
    /** @throws SvcError `invalid_arguments` if the file is gone or has changed */
    open(file: KeptFile, kind: MediaKind): Promise<StagedFile>
    discard(files: readonly Pick<KeptFile, 'name'>[]): Promise<void>
  }
  /** @throws SvcError or ILinkError; then nothing was sent to the user */
  upload(
    account: Account,
    to: string,
    file: StagedFile,
    signal: AbortSignal,
    progress?: SendCaller['progress'],
  ): Promise<UploadedMedia>
}
