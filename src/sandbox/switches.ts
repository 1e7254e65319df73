/**
 * How this WeChat behaves where reports differ or where tests need it otherwise: every row of protocol notes 7.3 as
 * data. The first value of a row is the faithful default, save `replay`: the sandbox as we start it replays a batch
 * until the cursor moves, the kinder of the two behaviours reported.
 */
import { badArgument } from '../model/error.ts'

interface Row<T extends string | number> {
  readonly default: T
  /** The words allowed; absent for numbers and free text. */
  readonly values?: readonly T[]
  readonly what: string
}

type Split<S extends string> = S extends `${infer One} ${infer Rest}` ? One | Split<Rest> : S
/** @param values separated by spaces, the default first */
const words = <const S extends string>(what: string, values: S): Row<Split<S>> => {
  const all = values.split(' ') as Split<S>[]
  return { default: all[0]!, values: all, what }
}
const count = (what: string, value: number): Row<number> => ({ default: value, what })
const text = (what: string): Row<string> => ({ default: '', what })

/** Every switch: default, allowed values, meaning. */
export const switchTable = {
  replay: words(
    'until_advance: a batch comes again until a newer cursor is presented; never: once returned it is gone; always: any old cursor replays',
    'until_advance never always',
  ),
  empty_cursor: words('what an empty cursor brings', 'backlog replay_all'),
  batch: count('most messages in one getupdates answer', 100),
  hold_ms: count('longest hold of getupdates and get_qrcode_status, milliseconds', 28_000),
  longpolling_timeout_ms: count('advertised to the client; 0 leaves the field out', 35_000),
  pollers: words(
    'two polls of one bot: share the messages, or the older poll is answered empty',
    'share kick_older',
  ),
  duplicate: words('each inbound message comes a second time', 'off same_id new_id new_token'),
  duplicate_after_ms: count('how much later, milliseconds', 2000),
  create_time: words(
    'create_time_ms of inbound messages; with whole seconds two equal ones cannot be told from one that came twice',
    'milliseconds whole_seconds',
  ),
  receive: words(
    'the receive side of a bot that lives is open, answers -14 (expired), or lapses silently: after the hold it answers without msgs and without a cursor; it stays so until it is set to open, or until the bot says notifystart (until_start)',
    'open expired expired_until_start lapsed lapsed_until_start',
  ),
  receive_heals_after: count(
    'a receive side that is not open heals by itself after this many answers; 0: never',
    0,
  ),
  refused: words(
    'this endpoint alone answers -14, while getupdates goes on as before',
    'none sendmessage sendtyping getconfig getuploadurl all',
  ),
  hold_cut: words(
    'a gateway ends a long poll: with a 524 page, or by closing the connection',
    'off 524 reset',
  ),
  hold_cut_after_ms: count('how long that gateway lets a poll wait, milliseconds', 16_000),
  notifystart: words('what notifystart answers', 'accept fail'),
  notifystop: words(
    'a bot after notifystop, until its next notifystart: sends work; are refused; are accepted and never shown',
    'ignored refuse_sends drop_sends',
  ),
  ret: words('ret:0 in successful answers (getconfig always has it)', 'present omitted'),
  expired_form: words('which field says -14', 'errcode ret both'),
  window: words('a send after the window closed', 'refuse silent_drop off'),
  window_ms: count('how long after an inbound message the bot may send, milliseconds', 86_400_000),
  quota: count('accepted sends per inbound message; 0 switches it off', 10),
  burst: words('more than 2 sends in 1 s, or 12 in 5 min to one user, are refused', 'on off'),
  text_limit: count('longest text in UTF-8 bytes', 16_384),
  missing_context_token: words('a send without context_token', 'accept refuse drop'),
  client_id_reuse: words('a second send with the same client_id', 'first_only show_all'),
  voice_out: words('a voice bubble sent by the bot', 'not_rendered render'),
  send_reply: words('the answer to sendmessage', 'message_id ret empty'),
  upload_url: words('what getuploadurl returns', 'full legacy both'),
  upload_method: words('what the CDN accepts for an upload', 'post put both'),
  upload_check: words('how uploads are checked: decrypt, size and MD5; or the size alone', 'full size'),
  full_url: words('full_url in inbound media', 'present omitted'),
  image_key: words(
    'key spelling of inbound images: c = image_item.aeskey in hex (and b); a = base64 of the bytes; b = base64 of hex; none = plain bytes',
    'c a b none',
  ),
  quote: words('how a quote of the user arrives', 'id partial full type0 type8'),
  verify_code: words('whether a scan asks for digits', 'off on'),
  qr_ttl_ms: count('life of a QR code, milliseconds', 120_000),
  redirect_host: text('host[:port] announced once per login by scaned_but_redirect; empty: no redirect'),
  typing_ms: count('how long the typing indicator stays, milliseconds', 6000),
} as const

/** The name of a switch. */
export type SwitchName = keyof typeof switchTable
/** The switches' values. */
export type Switches = { [K in SwitchName]: (typeof switchTable)[K]['default'] }

/** Every switch at its default. */
export const defaultSwitches = (): Switches =>
  Object.fromEntries(Object.entries(switchTable).map(([name, row]) => [name, row.default])) as Switches

const rows: Readonly<Record<string, Row<string | number>>> = switchTable

/** The given switches, checked. @throws SvcError `invalid_arguments` naming the switch and what it takes */
export function readSwitches(input: Record<string, unknown>): Partial<Switches> {
  const out: Partial<Record<string, string | number>> = {}
  for (const [name, value] of Object.entries(input)) {
    const row = rows[name]
    if (!row) {
      throw badArgument(name, 'no such switch', {
        hint: `The switches are ${Object.keys(switchTable).join(', ')}.`,
      })
    }
    const given = typeof row.default === 'number' && typeof value === 'string' ? Number(value) : value
    if (!fits(row, given)) {
      throw badArgument(name, 'not a value of this switch', {
        hint: row.values ? `Use one of ${row.values.join(', ')}.` : `Give a ${typeof row.default}.`,
      })
    }
    out[name] = given
  }
  return out
}

const fits = ({ default: usual, values }: Row<string | number>, given: unknown): given is string | number =>
  typeof given === 'number'
    ? typeof usual === 'number' && Number.isInteger(given) && given >= 0
    : typeof given === 'string' && typeof usual === 'string' && (values?.includes(given) ?? true)
