/** Files of messages, as callers send and receive them. */
import { type Static, Type } from '@sinclair/typebox'
import { integer, oneOf, optional, text } from './shapes.ts'

/** Which digest of a file to compute; none by default. */
export const DigestChoice = oneOf(['sha256'], 'Also compute the SHA-256, which takes longer.')
/** The result of `DigestChoice`. */
const Sha256 = optional.text('SHA-256 of the content, in hexadecimal; only when requested with digest.')

/** A file that `download` wrote. */
export const Downloaded = Type.Object({
  path: text('Where the file is, on the machine of the service.'),
  size: integer('Bytes.'),
  file_name: Type.String(),
  content_type: Type.String(),
  renamed: optional.text(
    "Which part of the sender's file name could not be kept; absent when nothing was changed.",
  ),
  sha256: Sha256,
})
export type Downloaded = Static<typeof Downloaded>

/** An upload that waits for its send. */
export const AcceptedUpload = Type.Object({
  upload_id: text('Pass it as media[].upload_id of send.'),
  size: integer('Bytes.'),
  sha256: Sha256,
  expires_at: integer('Unix milliseconds, 24 hours from now.'),
})
export type AcceptedUpload = Static<typeof AcceptedUpload>

/** An existing file of known size that must not change. */
export interface SteadyFile {
  size: number
  /** Yields the bytes from the beginning. A block is valid until the next one is requested. */
  read(): AsyncGenerator<Uint8Array>
  /** @throws SvcError `invalid_arguments` when the file has changed since it was opened */
  checkUnchanged(): Promise<void>
  /** Closes the file. Removes a file that was made only for this use. */
  release(): Promise<void>
}
