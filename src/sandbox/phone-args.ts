/** The arguments of a phone call, from the query or the body; curl needs no content type. */
import { SvcError } from '../model/error.ts'
import { type Fields, fieldsOf, fromWire } from './wire-text.ts'

const jsonBytesAtMost = 64 * 1024 * 1024

/** What a call was asked. */
export interface Asked {
  /** As they were sent. */
  readonly fields: Fields
  /** The raw request body, for media. */
  readonly body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>
  /** The sandbox's own address as the caller knows it. */
  readonly origin: string
}

/** @throws SvcError `bad_json` */
export async function readAsked(
  request: Request,
  { origin, searchParams }: URL,
  raw: boolean,
): Promise<Asked> {
  const query: Fields = Object.fromEntries(searchParams)
  const body = request.body ?? []
  if (raw || !request.body) return { fields: query, body, origin }
  if (Number(request.headers.get('content-length') ?? 0) > jsonBytesAtMost) {
    throw new SvcError('payload_too_large', 'the body is larger than 64 MiB')
  }
  const text = (await request.text()).trim()
  return { fields: { ...query, ...parsed(text) }, body: [], origin }
}

function parsed(text: string): Fields {
  if (!text) return {}
  // curl -d calls everything a form; what begins with a brace is JSON all the same.
  if (!text.startsWith('{')) return Object.fromEntries(new URLSearchParams(text))
  try {
    return fieldsOf(fromWire(text))
  } catch (cause) {
    throw new SvcError('bad_json', 'the body is not JSON', { cause })
  }
}

/** What is empty was not given. What no schema knows stays, to be refused: the rest of a text with `&` in it, for one. */
export const filled = (args: Readonly<Record<string, unknown>>, fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== '' || !(name in args)))
