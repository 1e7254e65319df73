/** The arguments of a phone call, from the query or the body; curl needs no content type. */
import { badArgument, SvcError } from '../model/error.ts'
import { type Fields, fieldsOf, fromWire, toWire } from './wire-text.ts'

const jsonBytesAtMost = 64 * 1024 * 1024

/** Arguments read by name; each reader throws SvcError `invalid_arguments` naming the argument. */
export class PhoneArgs {
  /** The raw request body, for media. */
  readonly body: AsyncIterable<Uint8Array>
  /** The sandbox's own address as the caller knows it. */
  readonly origin: string
  readonly #fields: Fields

  constructor(fields: Fields, body: AsyncIterable<Uint8Array>, origin: string) {
    this.#fields = fields
    this.body = body
    this.origin = origin
  }

  all(): Fields {
    return this.#fields
  }

  /** @throws SvcError `invalid_arguments` for one that the call does not take */
  refuseOthers(known: readonly string[]): void {
    const other = Object.keys(this.#fields).find(name => !known.includes(name))
    if (other === undefined) return
    throw badArgument(other, 'no such argument', {
      hint: known.length === 0 ? 'This call takes none.' : `This call takes ${known.join(', ')}.`,
    })
  }

  text(name: string): string | undefined {
    const value = this.#fields[name]
    if (value === undefined || value === '') return undefined
    if (typeof value === 'string') return value
    if (typeof value === 'number') return String(value)
    throw badArgument(name, 'expected a text')
  }

  need(name: string): string {
    const value = this.text(name)
    if (value === undefined) {
      throw badArgument(name, 'missing', { hint: 'GET /phone/api shows every argument.' })
    }
    return value
  }

  flag(name: string): boolean {
    const word = String(this.#fields[name] ?? '')
    if (word === 'true' || word === '1') return true
    if (word === '' || word === 'false' || word === '0') return false
    throw badArgument(name, 'expected true or false')
  }

  count(name: string): number | undefined {
    const value = this.text(name)
    if (value === undefined) return undefined
    if (/^\d+$/.test(value)) return Number(value)
    throw badArgument(name, 'expected a whole number')
  }

  one<T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.text(name)
    const found = allowed.find(one => one === value)
    if (found !== undefined || value === undefined) return found
    throw badArgument(name, `expected one of ${allowed.join(', ')}`)
  }

  /** An object argument, as JSON text with its ids bare again. */
  json(name: string): string {
    const value = this.#fields[name]
    if (typeof value === 'object' && value !== null) return toWire(value)
    throw badArgument(name, 'expected an object')
  }
}

/** @throws SvcError `bad_json` */
export async function readPhoneArgs(request: Request, url: URL, rawBody: boolean): Promise<PhoneArgs> {
  const query: Fields = Object.fromEntries(url.searchParams)
  const body = request.body ?? emptyBody()
  if (rawBody || !request.body) return new PhoneArgs(query, body, url.origin)
  if (Number(request.headers.get('content-length') ?? 0) > jsonBytesAtMost) {
    throw new SvcError('payload_too_large', 'the body is larger than 64 MiB')
  }
  const text = (await request.text()).trim()
  return new PhoneArgs({ ...query, ...parsed(text) }, emptyBody(), url.origin)
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

async function* emptyBody(): AsyncGenerator<Uint8Array> {}
