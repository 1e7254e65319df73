/** What can go wrong on purpose: per endpoint and bot, a number of times or at a rate. */
import { randomBytes } from 'node:crypto'
import { badArgument } from '../model/error.ts'

/** The endpoints faults are named by; `*` is any. */
export const faultEndpoints = [
  ...(['get_bot_qrcode', 'get_qrcode_status', 'getupdates', 'sendmessage', 'getuploadurl'] as const),
  ...(['getconfig', 'sendtyping', 'notifystart', 'notifystop', 'upload', 'download', '*'] as const),
] as const
/** Where a fault strikes. */
export type FaultEndpoint = (typeof faultEndpoints)[number]

/** What each kind does. */
export const faultKinds = {
  '400': 'HTTP 400',
  '401': 'HTTP 401 with {"ret":-1,"errmsg":"Invalid token"}',
  '404': 'HTTP 404',
  '405': 'HTTP 405',
  '500': 'HTTP 500, empty body',
  '502': 'HTTP 502, an HTML page',
  '524': 'HTTP 524, an HTML page (a gateway gave up waiting)',
  '201': 'HTTP 201 instead of 200 (uploads)',
  hang: 'no answer until the client leaves',
  reset: 'the connection is closed without an answer',
  slow: 'the answer comes after delay_ms; a download trickles over that time',
  truncated: 'the answer stops half way (JSON cut; a download ends early)',
  cut: 'the connection breaks in the middle of the answer',
  malformed: 'HTTP 200 with something that is not JSON',
  html: 'HTTP 200 with an HTML page',
  empty_body: 'HTTP 200 with nothing',
  nulls: 'every field of the answer is null',
  empty: 'an empty answer at once, without a cursor',
  ret: '{"ret":code} without errcode, after a second',
  errcode: '{"errcode":code} without ret, after a second',
  expired: '{"errcode":-14}, whatever the token',
  lapsed: '{"ret":0} at once, without msgs and without a cursor',
  no_param: 'an upload answered without x-encrypted-param',
  corrupt: 'a download with flipped bits',
} as const
/** What a fault does. */
export type FaultKind = keyof typeof faultKinds

/** A fault that is set. */
export interface Fault {
  readonly id: string
  readonly endpoint: FaultEndpoint
  readonly kind: FaultKind
  /** How often it still strikes; 0 = until removed. */
  times: number
  /** Chance per request, 0–1. */
  readonly rate: number
  /** Only requests of this bot. */
  readonly bot?: string
  /** The request takes effect before its answer is spoiled: the client cannot know. */
  readonly after: boolean
  readonly delay_ms: number
  /** For `ret` and `errcode`. */
  readonly code: number
  readonly errmsg?: string
}

/** The faults that are set, oldest first; the first that fits strikes. */
export class Faults {
  #faults: Fault[] = []

  /** @throws SvcError `invalid_arguments` naming the field */
  add(input: Record<string, unknown>): Fault {
    const fault: Fault = {
      id: randomBytes(4).toString('hex'),
      endpoint: oneOf('endpoint', input.endpoint, faultEndpoints),
      kind: oneOf('kind', typeof input.kind === 'number' ? String(input.kind) : input.kind, kindNames),
      times: number('times', input.times, 1),
      rate: number('rate', input.rate, 1),
      ...(typeof input.bot === 'string' && { bot: input.bot }),
      after: input.after === true || input.after === 'true',
      delay_ms: number('delay_ms', input.delay_ms, 1000),
      code: number('code', input.code, -1),
      ...(typeof input.errmsg === 'string' && { errmsg: input.errmsg }),
    }
    this.#faults.push(fault)
    return fault
  }

  list(): readonly Fault[] {
    return this.#faults
  }

  /** Removes the one, or those of an endpoint, or all. */
  clear(which: { id?: string; endpoint?: string } = {}): number {
    const before = this.#faults.length
    this.#faults = this.#faults.filter(
      fault => (which.id && fault.id !== which.id) || (which.endpoint && fault.endpoint !== which.endpoint),
    )
    return before - this.#faults.length
  }

  /** The fault that strikes this request, used up once. */
  take(endpoint: string, bot: string | undefined): Fault | undefined {
    const fault = this.#faults.find(
      fault =>
        (fault.endpoint === '*' || fault.endpoint === endpoint) &&
        (fault.bot === undefined || fault.bot === bot) &&
        (fault.rate >= 1 || Math.random() < fault.rate),
    )
    if (fault && fault.times > 0 && --fault.times === 0) this.clear({ id: fault.id })
    return fault
  }
}

const kindNames = Object.keys(faultKinds) as FaultKind[]

function oneOf<T extends string>(field: string, value: unknown, allowed: readonly T[]): T {
  const found = allowed.find(one => one === value)
  if (found !== undefined) return found
  throw badArgument(field, 'not one of those that exist', { hint: `Use one of ${allowed.join(', ')}.` })
}

function number(field: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback
  const given = typeof value === 'string' && value.trim() ? Number(value) : value
  if (typeof given === 'number' && Number.isFinite(given)) return given
  throw badArgument(field, 'expected a number')
}
