/**
 * How this WeChat behaves where reports differ or where tests need it otherwise: every row of protocol notes 7.3 as
 * data. The first value of a row is the faithful default, save `replay`: the sandbox as we start it replays a batch
 * until the cursor moves, the kinder of the two behaviours reported.
 */
import { type Static, Type } from '@sinclair/typebox'
import { closed, oneOf, optional } from '../model/shapes.ts'
import { parse, spelled } from '../operations/parse.ts'
import type { Fields } from './wire.ts'

type Split<S extends string> = S extends `${infer One} ${infer Rest}` ? One | Split<Rest> : S
/** @param values separated by spaces, the default first */
const words = <const S extends string>(what: string, values: S) => {
  const all = values.split(' ') as Split<S>[]
  return oneOf(all, what, { default: all[0] })
}
const count = (what: string, usual: number) => Type.Integer({ minimum: 0, default: usual, description: what })
const text = (what: string) => Type.String({ default: '', description: what })

/** Every switch: default, allowed values, meaning. */
export const Switches = closed({
  replay: words(
    'How often a batch of messages comes: again until the cursor moves, once, or again with any old cursor.',
    'until_advance never always',
  ),
  empty_cursor: words(
    'An empty cursor brings what was not fetched yet, or every message there is.',
    'backlog replay_all',
  ),
  batch: count('The most messages in one answer of getupdates.', 100),
  hold_ms: count('The longest wait of getupdates and get_qrcode_status for news, in milliseconds.', 28_000),
  longpolling_timeout_ms: count(
    'The wait that WeChat tells the client to expect, in milliseconds; 0 tells none.',
    35_000,
  ),
  pollers: words('Two polls of one bot share the messages, or the older one ends empty.', 'share kick_older'),
  duplicate: words(
    'Each message of a user comes a second time: with the same id, a new one, or a new context token too.',
    'off same_id new_id new_token',
  ),
  duplicate_after_ms: count('How much later that second time is, in milliseconds.', 2000),
  create_time: words(
    'The times of messages in milliseconds, or in whole seconds, where two equal messages look like one that came twice.',
    'milliseconds whole_seconds',
  ),
  receive: words(
    'How a bot that is logged in receives: open; expired answers -14; lapsed answers nothing and no cursor. It stays so until this is open again, or until the bot says notifystart (until_start).',
    'open expired expired_until_start lapsed lapsed_until_start',
  ),
  receive_heals_after: count(
    'A receive side that is not open heals by itself after so many answers; 0 is never.',
    0,
  ),
  refused: words(
    'This call alone answers -14, while messages still come.',
    'none sendmessage sendtyping getconfig getuploadurl all',
  ),
  hold_cut: words(
    'A gateway ends long waits: with an error page 524, or by closing the connection.',
    'off 524 reset',
  ),
  hold_cut_after_ms: count('How long that gateway lets a poll wait, in milliseconds.', 16_000),
  notifystart: words('What notifystart answers.', 'accept fail'),
  notifystop: words(
    'After notifystop sends still work, are refused, or are accepted and never shown.',
    'ignored refuse_sends drop_sends',
  ),
  ret: words('Answers that succeed contain ret:0, or leave it out.', 'present omitted'),
  expired_form: words('Which field of an answer says -14.', 'errcode ret both'),
  window: words(
    'A send after the answer window closed is refused, dropped without a word, or accepted.',
    'refuse silent_drop off',
  ),
  window_ms: count('How long after a message of the user the bot may send, in milliseconds.', 86_400_000),
  quota: count('How many answers a bot may send to each message of a user; 0 is any number.', 10),
  burst: words('Refuse more than 2 sends in a second, or 12 to one user in 5 minutes.', 'on off'),
  text_limit: count('The longest text in bytes of UTF-8.', 16_384),
  missing_context_token: words(
    'A send without context_token is accepted, refused, or dropped without a word.',
    'accept refuse drop',
  ),
  client_id_reuse: words(
    'Of two sends with one client_id the first alone is shown, or both.',
    'first_only show_all',
  ),
  voice_out: words('A voice message that the bot sends is not shown, or is.', 'not_rendered render'),
  send_reply: words('What sendmessage answers: an id, only ret, or nothing.', 'message_id ret empty'),
  upload_url: words('Which upload addresses getuploadurl returns.', 'full legacy both'),
  upload_method: words('Which HTTP method an upload must use.', 'post put both'),
  upload_check: words(
    'Uploads are decrypted and their size and MD5 compared, or the size alone.',
    'full size',
  ),
  full_url: words('Media of users come with a ready address, or without.', 'present omitted'),
  image_key: words(
    'How the key of a picture is written: c as hex beside it (and b), a as base64 of the bytes, b as base64 of the hex, none for a picture that is not encrypted.',
    'c a b none',
  ),
  quote: words(
    'How a quote of the user arrives: its id, the words, the whole message, or as type 0 or 8.',
    'id partial full type0 type8',
  ),
  verify_code: words('A scan asks for digits, or does not.', 'off on'),
  qr_ttl_ms: count('How long a QR code lives, in milliseconds.', 120_000),
  redirect_host: text('A host[:port] that each login is sent to once; empty for none.'),
  typing_ms: count('How long “is typing” stays, in milliseconds.', 6000),
})

/** The switches' values. */
export type Switches = Static<typeof Switches>

/** Every switch at its default. */
export const defaultSwitches = (): Switches => parse(Switches, {})

const some = closed(
  Object.fromEntries(
    Object.entries(Switches.properties).map(([name, { default: _, ...row }]) => [name, optional(row)]),
  ),
)

/** The given switches, checked. @throws SvcError `invalid_arguments` naming the switch and what it takes */
export const readSwitches = (input: Fields): Partial<Switches> => parse(some, spelled(some, input))
