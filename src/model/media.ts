/** Files of messages as the doors take and give them. */
import { type Static, Type } from '@sinclair/typebox'
import { integer, oneOf, optional, text } from './shapes.ts'

/** Which digest of a file is wanted: none unless said. */
export const DigestChoice = oneOf(
  ['sha256'],
  'Take the SHA-256 of the content on the way. Large files take longer then.',
)
/** What was asked for with `DigestChoice`. */
const Sha256 = optional(text('Of the content, in hexadecimal; only when asked for with digest.'))

/** A file that `download` wrote. */
export const Downloaded = Type.Object({
  path: text('Where the file is, on the machine of the service.'),
  size: integer('Bytes.'),
  file_name: Type.String(),
  content_type: Type.String(),
  renamed: optional(
    text("What of the sender's name of the file could not be kept; absent when nothing had to be changed."),
  ),
  sha256: Sha256,
})
export type Downloaded = Static<typeof Downloaded>

/** An upload that waits for its send. */
export const AcceptedUpload = Type.Object({
  upload_id: text('For media[].upload_id of send.'),
  size: integer('Bytes.'),
  sha256: Sha256,
  expires_at: integer('Unix milliseconds, 24 hours from now.'),
})
export type AcceptedUpload = Static<typeof AcceptedUpload>

/** A file that lies here now, of known size. */
export interface SteadyFile {
  size: number
  /** The bytes from the beginning. A block is valid until the next one is asked for. */
  read(): AsyncGenerator<Uint8Array>
  /** @throws SvcError `invalid_arguments` when the file is not what it was when it was opened */
  unchanged(): Promise<void>
  /** Closes the file; one that was made for this use alone is removed. */
  release(): Promise<void>
}
