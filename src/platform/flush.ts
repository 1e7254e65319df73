/** When the bytes of a response are in the kernel. */
import process from 'node:process'

/**
 * Size of the pieces for a Deno stream, in bytes. The server may hold one piece while it asks for the next.
 */
const pieceBytes = 64 * 1024

/**
 * Marks an accepted request whose connection shows how far a response is: over TCP on Bun. A property of the
 * request, because a weak map costs more.
 */
export const peerOf = Symbol('peer')
export interface AcceptedRequest extends Request {
  [peerOf]?: { waitUntilWritten(): Promise<boolean> }
}

/**
 * Reports what happened to the response that the caller is about to return, which must not be a stream: true
 * when the kernel has taken every byte and the client was still there, false when the client left first. The
 * server does not stop before it is known.
 *
 * @returns undefined where this cannot be known
 */
export const waitUntilWritten = (request: AcceptedRequest): Promise<boolean> | undefined =>
  request[peerOf]?.waitUntilWritten()

/**
 * Splits bytes for a stream whose progress matters. On Bun a chunk of any size is in the kernel when the next
 * one is requested. Deno 2.9.6 takes even 60 MB into its own memory at once.
 */
export function* piecesOf(bytes: Uint8Array): Generator<Uint8Array, undefined> {
  if (process.versions.bun && bytes.length > 0) yield bytes
  else for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes)
}

/** Bytes given to the runtime are in the kernel after this time. */
export const flushMs = 2
/**
 * Deno 2.9.6 holds up to half a megabyte of a stream while its reader stands still, and does not report a
 * reader that left.
 */
const longFlushMs = 1000

/**
 * Returns after how many ms a stream of this size is in the kernel, counted from when its last piece was
 * taken.
 */
export const flushMsOf = (bytes: number): number =>
  process.versions.bun || bytes <= pieceBytes ? flushMs : longFlushMs
