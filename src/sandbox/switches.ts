/**
 * Behaviour of the simulated WeChat, where reports differ or tests need a variant: each row of protocol
 * notes 7.3 as data. The first value of a row is WeChat's usual behaviour. Exception: `replay` replays a
 * batch until the cursor moves, the more harmless of the two reported behaviours.
 */
import { type Static, Type } from '@sinclair/typebox'
import { closed, oneOf, optional } from '../model/shapes.ts'
import { coerceStrings, parse } from '../operations/parse.ts'
import type { Fields } from './wire.ts'

type Split<S extends string> = S extends `${infer One} ${infer Rest}` ? One | Split<Rest> : S
/**
 * Schema of a switch with named values.
 *
 * @param values separated by spaces, the default first
 */
const defineChoice = <const S extends string>(what: string, values: S) => {
  const all = values.split(' ') as Split<S>[]
  return oneOf(all, what, { default: all[0] })
}
const defineCount = (what: string, usual: number) =>
  Type.Integer({ minimum: 0, default: usual, description: what })
const defineText = (what: string) => Type.String({ default: '', description: what })

/** Every switch: default, allowed values, meaning. */
export const Switches = closed({
  replay: defineChoice(
    'How often a batch of messages is delivered: until the cursor moves, only once, or again with any old cursor.',
    'until_advance never always',
  ),
  empty_cursor: defineChoice(
    'What an empty cursor returns: the messages that were not fetched yet, or all messages.',
    'backlog replay_all',
  ),
  batch: defineCount('Maximum number of messages in one answer of getupdates.', 100),
  hold_ms: defineCount('Longest wait of getupdates and get_qrcode_status, in milliseconds.', 28_000),
  longpolling_timeout_ms: defineCount(
    'The longest wait that WeChat announces to the client, in milliseconds; 0 announces none.',
    35_000,
  ),
  pollers: defineChoice(
    'Two polls of one bot share its messages, or the older poll ends empty.',
    'share kick_older',
  ),
  duplicate: defineChoice(
    'Each message of a user is delivered twice: with the same id, a new id, or a new id and context token.',
    'off same_id new_id new_token',
  ),
  duplicate_after_ms: defineCount('Delay of the second delivery (duplicate), in milliseconds.', 2000),
  create_time: defineChoice(
    'Times of messages in milliseconds, or in whole seconds. In whole seconds two equal messages look like one that was delivered twice.',
    'milliseconds whole_seconds',
  ),
  receive: defineChoice(
    'How a logged-in bot receives: open works; expired answers -14; lapsed answers without messages and cursor. It ends when this switch is open again, or when the bot calls notifystart (until_start).',
    'open expired expired_until_start lapsed lapsed_until_start',
  ),
  receive_heals_after: defineCount(
    'Number of answers after which a receive side that is not open works again; 0 means never.',
    0,
  ),
  refused: defineChoice(
    'The call that answers -14, while messages are still received.',
    'none sendmessage sendtyping getconfig getuploadurl all',
  ),
  hold_cut: defineChoice(
    'A proxy ends long polls: with the error page 524, or by closing the connection.',
    'off 524 reset',
  ),
  hold_cut_after_ms: defineCount('How long that proxy (hold_cut) lets a poll wait, in milliseconds.', 16_000),
  notifystart: defineChoice('What notifystart answers.', 'accept fail'),
  notifystop: defineChoice(
    'After notifystop, sends still work, are refused, or are accepted and never displayed.',
    'ignored refuse_sends drop_sends',
  ),
  ret: defineChoice('Successful answers contain ret:0, or omit it.', 'present omitted'),
  expired_form: defineChoice('The field of an answer that contains -14.', 'errcode ret both'),
  window: defineChoice(
    'A send after the answer window closed is refused, silently dropped, or accepted.',
    'refuse silent_drop off',
  ),
  window_ms: defineCount(
    'How long the bot may send after a message of the user, in milliseconds.',
    86_400_000,
  ),
  quota: defineCount(
    'Number of answers that a bot may send after each message of a user; 0 means no limit.',
    10,
  ),
  burst: defineChoice('Refuse more than 2 sends a second, or 12 to one user in 5 minutes.', 'on off'),
  text_limit: defineCount('Maximum length of a text, in bytes of UTF-8.', 16_384),
  missing_context_token: defineChoice(
    'A send without context_token is accepted, refused, or silently dropped.',
    'accept refuse drop',
  ),
  client_id_reuse: defineChoice(
    'If two sends have the same client_id, only the first is displayed, or both.',
    'first_only show_all',
  ),
  voice_out: defineChoice('A voice message of the bot is not displayed, or is.', 'not_rendered render'),
  send_reply: defineChoice(
    'What sendmessage answers: an id, only ret, or an empty object.',
    'message_id ret empty',
  ),
  upload_url: defineChoice('Which upload addresses getuploadurl returns.', 'full legacy both'),
  upload_method: defineChoice('Which HTTP method an upload must use.', 'post put both'),
  upload_check: defineChoice(
    'Checks of an upload: it is decrypted and its size and MD5 compared, or only its size.',
    'full size',
  ),
  full_url: defineChoice(
    'Media of users come with a complete download address, or without.',
    'present omitted',
  ),
  image_key: defineChoice(
    'How the key of a picture is encoded: a is base64 of the bytes, b is base64 of the hex, c is hex in aeskey besides b, none is a picture without encryption.',
    'c a b none',
  ),
  quote: defineChoice(
    'How a quote of the user arrives: its id, the words, the whole message, or as type 0 or 8.',
    'id partial full type0 type8',
  ),
  verify_code: defineChoice('A scan asks for digits, or not.', 'off on'),
  qr_ttl_ms: defineCount('Lifetime of a QR code, in milliseconds.', 120_000),
  redirect_host: defineText('A host[:port] that each login is redirected to once; empty for none.'),
  typing_ms: defineCount('How long “is typing” is displayed, in milliseconds.', 6000),
})

/** The switches' values. */
export type Switches = Static<typeof Switches>

/** Returns the default of every switch. */
export const defaultSwitches = (): Switches => parse(Switches, {})

const partialSwitches = closed(
  Object.fromEntries(
    Object.entries(Switches.properties).map(([name, { default: _, ...row }]) => [name, optional(row)]),
  ),
)

/**
 * Checks the input and returns its switches.
 *
 * @throws SvcError `invalid_arguments` naming the switch and its allowed values
 */
export const readSwitches = (input: Fields): Partial<Switches> =>
  parse(partialSwitches, coerceStrings(partialSwitches, input))
