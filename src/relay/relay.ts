/**
 * The door for programs that speak WeChat's protocol (protocol notes 2): they talk to svc as if it were WeChat, several on one
 * account, and none takes a message from another. Each is a relay client with a key of its own.
 */
import { hashOf, parseKey } from '../access/secret.ts'
import {
  type ClientSend,
  codeAnswer,
  failure,
  formatAnswer,
  formatMessage,
  formatUpdates,
  loginAnswer,
  outcomes,
  readCursor,
  readRequest,
  readSend,
  readTicketRequest,
  readTyping,
  readUpload,
  refusal,
  ticketAnswer,
  uploadAnswer,
} from '../ilink/server.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { SendResult } from '../model/message.ts'
import { anyCaller } from '../model/principal.ts'
import { createFailureCounter } from '../operations/failed-calls.ts'
import { invoke, toSvcError } from '../operations/gate.ts'
import { relayClient, relayPoll, relaySend } from '../operations/relaying.ts'
import { showTyping } from '../operations/typing.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import type { Peer } from '../platform/serve.ts'
import { linkSignals } from '../platform/signals.ts'
import { givenTokenOf } from '../server/auth.ts'
import { addressOf, isOverTls, prefixOf } from '../server/behind-proxy.ts'
import { readBodyBytes, rejectCompressed, releaseBody } from '../server/body.ts'
import { noteCaller } from '../server/caller.ts'
import { toProblemResponse } from '../server/errors.ts'
import { FailedAttempts } from '../server/failed-attempts.ts'
import { HttpCall, ShutdownSignal } from '../server/http-call.ts'
import { answerWithinLimits } from '../server/limits.ts'
import { observeCalls, type PathHandler, type RequestHandler } from '../server/observed.ts'
import { answerCdn, cdnPath, type DoorParts, isCdnPath } from './cdn.ts'
import { mediaKeyOf, sign, unsign } from './signed.ts'

export interface RelayOptions extends Pick<DoorParts, 'config' | 'gateway' | 'log'> {
  /** Answers before the first client exists: then there is no relay. */
  readonly off: RequestHandler
}

export interface RelayDoor {
  /** Never throws. */
  fetch: RequestHandler
  /** Ends waiting polls with an empty answer. Other calls go on. */
  drain(): void
  /** Does that, and rejects new calls. */
  beginShutdown(): void
}

/** A call of a client that proved who it is. */
interface Ask {
  readonly request: Request
  readonly call: HttpCall
  readonly body: Readonly<Record<string, unknown>>
  /** Id of its key, and the hash of the secret that it showed. */
  readonly key: { readonly id: string; readonly hash: string }
}

/** Tencent's client ends a poll exactly after the announced time, and loses an answer that is on its way (notes 7.2). */
const [holdSeconds, announcedMs] = [28, 35_000]
const uploadLifeMs = 60 * 60_000
const bodyLimit = { maxBytes: 256 * 1024, hint: 'Send one message at a time.' }
/** Programs poll again at once after an error that they do not know. */
const refusedAfterMs = 1000
const bot = '/ilink/bot/'
const loginPath = '/ilink/login'
const tooManyAsk =
  'Another login is under way. The owner agrees to it or removes the program (svc relay remove NAME), or it ends after five minutes.'
const noLogin =
  'This is svc, which has the login already: no code is scanned here. On its machine, svc relay add NAME makes the token for this program.'

/** Whether a URL is one of the relay. Some programs write a second slash. */
export const isRelayPath = (url: string): boolean => /^[^/]*\/\/[^/]*\/+ilink\//.test(url)

export function createRelay(options: RelayOptions): RelayDoor {
  const { gateway, log, off } = options
  const shutdown = new ShutdownSignal()
  const tries = new FailedAttempts({ log, onFailure: createFailureCounter(gateway, log, shutdown.signal) })
  const parts: DoorParts = {
    ...options,
    shutdown,
    by: anyCaller,
    async throttle(answer, address) {
      const counted = await tries.throttle(new Response(null, { status: 401 }), address)
      return counted.status === 401 ? answer : counted
    },
  }
  /** The answer to a token that svc does not know, in WeChat's form, a second later. */
  const expire = async (request: Request, address: string | undefined) => {
    const waited = gateway.clock.sleep(refusedAfterMs, request.signal)
    const answer = await parts.throttle(toAnswer(outcomes.expired), address)
    if (answer.status === 200) await waited
    return answer
  }
  const answerBot = async (request: Request, peer: Peer | undefined, name: string) => {
    const endpoint = Object.hasOwn(endpoints, name) ? endpoints[name] : undefined
    const address = () => addressOf(request, peer)
    if (isLoginName(name))
      return answerWithinLimits(anyCaller, address, () => answerLogin(request, name, address()))
    if (!endpoint || request.method !== 'POST') return toAnswer(failure('not found'), endpoint ? 405 : 404)
    const token = givenTokenOf(request) ?? ''
    const parsed = parseKey(token)
    const by = parsed && (await gateway.keys.authenticate(token, address))
    if (!parsed || !by) return answerWithinLimits(anyCaller, address, () => expire(request, address()))
    peer?.accept()
    noteCaller(request, by, peer)
    const key = { id: parsed.id, hash: hashOf(parsed.secret) }
    return answerWithinLimits(
      by,
      address,
      async () => (await answerCall(parts, endpoint, request, key)) ?? expire(request, address()),
    )
  }
  /** The login of a program that has no token yet. Unless one may log in, it is refused in words, which programs show. */
  const answerLogin = async (request: Request, name: string, address: string | undefined) => {
    if (name === 'get_qrcode_status') {
      const code = new URL(request.url).searchParams.get('qrcode') ?? ''
      using either = linkSignals(request.signal, shutdown.draining)
      const login = await gateway.relayLogins.poll(code, address, either.signal)
      const known = toAnswer(loginAnswer(login))
      return login === undefined ? parts.throttle(known, address) : known
    }
    const asked = await gateway.relayLogins.ask(address)
    if (typeof asked === 'object')
      return toAnswer(codeAnswer(asked.code, `${originOf(request)}${loginPath}?number=${asked.number}`))
    return parts.throttle(toAnswer(failure(asked ? tooManyAsk : noLogin), 403), address)
  }
  const answer: PathHandler = async (request, peer, given) => {
    const path = given.replace(/\/{2,}/g, '/')
    try {
      if (path === loginPath) return answerNumber(request)
      if (path.startsWith(cdnPath)) return await answerCdn(parts, request, peer, path)
      return await answerBot(request, peer, path.startsWith(bot) ? path.slice(bot.length) : '')
    } catch (error) {
      return toErrorAnswer(toSvcError(error, log, { signal: request.signal }))
    }
  }
  // A name of the caller's own would be kept as a label of metrics.
  const isKnown = (path: string) =>
    isCdnPath(path) || (path.startsWith(bot) && Object.hasOwn(endpoints, path.slice(bot.length)))
  const observed = observeCalls(answer, parts, path => (isKnown(path) ? path : undefined))
  return {
    async fetch(request, peer) {
      // While the database is away, there may be clients.
      const isOn = await Promise.resolve(gateway.relays.hasAny()).catch(() => true)
      return (isOn ? observed : off)(request, peer)
    },
    drain: () => shutdown.drain(),
    beginShutdown: () => shutdown.stop(),
  }
}

const isLoginName = (name: string): boolean => name === 'get_bot_qrcode' || name === 'get_qrcode_status'

/** The page of the link that a program shows. It knows nothing but its address, whose query is in no log. */
function answerNumber(request: Request): Response {
  const number = new URL(request.url).searchParams.get('number') ?? ''
  if (!/^\d{6}$/.test(number)) return toAnswer(failure('not found'), 404)
  const text = `${number}\n\nsvc: type this number in the panel, under Keys. Or run: svc relay allow ${number}\nsvc：请在管理面板的“密钥”页输入此数字。\n`
  const headers = {
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  }
  return new Response(text, { headers })
}

type Endpoint = (parts: DoorParts, ask: Ask) => Promise<object | string>

const endpoints: Readonly<Record<string, Endpoint>> = {
  getupdates: getUpdates,
  sendmessage: sendMessage,
  sendtyping: sendTyping,
  getuploadurl: getUploadUrl,
  async getconfig(parts, { body, call, key }) {
    await requireClient(parts, call)
    const read = readTicketRequest(body)
    return 'user' in read ? ticketAnswer(sign(key.hash, 'ticket', { u: read.user })) : read
  },
  'msg/notifystart': async (parts, { call }) => requireClient(parts, call),
  'msg/notifystop': async (parts, { call }) => requireClient(parts, call),
}

/** @throws SvcError with the right `relay` in its details for a key of no client */
async function requireClient({ gateway, log }: DoorParts, call: HttpCall): Promise<object> {
  await invoke(relayClient, gateway, {}, call, log)
  return outcomes.done
}

/** @returns undefined if svc does not know the token */
async function answerCall(
  parts: DoorParts,
  endpoint: Endpoint,
  request: Request,
  key: Ask['key'],
): Promise<Response | undefined> {
  const { draining, signal } = parts.shutdown
  // A program that got an empty answer would poll again at once.
  const ending = endpoint === getUpdates ? draining : signal
  if (ending.aborted) return toErrorAnswer(ending.reason)
  const call = new HttpCall(request, parts)
  try {
    rejectCompressed(request.headers)
    const text = new TextDecoder().decode(await readBodyBytes(request, bodyLimit))
    const answer = await endpoint(parts, { request, call, body: readRequest(text), key })
    return answer instanceof Response ? answer : toAnswer(answer)
  } catch (error) {
    if (error instanceof SyntaxError) return toAnswer(outcomes.invalid)
    const known = toSvcError(error, parts.log, { signal: call.signal, requestId: call.requestId })
    if (known.code === 'unauthorized' || known.details?.right === 'relay') return undefined
    return toErrorAnswer(known)
  } finally {
    call.end()
    releaseBody(request)
  }
}

/** What a client reaches svc by. */
const originOf = (request: Request): string =>
  `${isOverTls(request) ? 'https' : 'http'}://${new URL(request.url).host}${prefixOf(request) ?? ''}`

async function getUpdates({ gateway, log }: DoorParts, { request, call, body, key }: Ask): Promise<string> {
  const { id, hash } = key
  const known = unsign(hash, 'cursor', readCursor(body))
  const agent = `${call.address} ${request.headers.get('user-agent')}`
  const source = nodeCrypto().hash('sha256', agent, 'base64url').slice(0, 12)
  const after = known && known.r !== 0 ? { row: known.r, mark: known.m } : undefined
  const { rows, last } = await invoke(relayPoll, gateway, { after, source, timeout: holdSeconds }, call, log)
  const origin = originOf(request)
  const messages = rows.flatMap(
    row =>
      formatMessage(row.raw, row.message_id, {
        contextToken: sign(hash, 'context', { r: row.id }),
        mediaOf(message, item) {
          const param = `${id}.${sign(hash, 'media', { m: message, n: item })}`
          const url = `${origin}${cdnPath}download?encrypted_query_param=${encodeURIComponent(param)}`
          return { param, keyHex: mediaKeyOf(hash, message, item).toString('hex'), url }
        },
      }) ?? [],
  )
  const next = last ? { r: last.row, m: last.mark } : (known ?? { r: 0, m: '' })
  return formatUpdates(messages, sign(hash, 'cursor', next), announcedMs)
}

async function sendMessage(parts: DoorParts, { body, call, key }: Ask): Promise<object> {
  const { gateway, log } = parts
  const wanted = readSend(body)
  const media = 'to' in wanted ? mediaOf(wanted, key.hash) : undefined
  if (!('to' in wanted) || media === 'unknown') {
    await requireClient(parts, call)
    return 'to' in wanted ? refusal('the file is not known here') : wanted
  }
  const { to, text, clientId: client_id } = wanted
  try {
    const input = withoutUndefined({ to, text, media: media && [media], client_id })
    return toSent(await invoke(relaySend, gateway, input, call, log))
  } catch (error) {
    if (!(error instanceof SvcError) || error.details?.right !== undefined) throw error
    if (error.code === 'forbidden') return outcomes.invalid
    if (error.code === 'unauthorized' || error.status >= 500) throw error
    // Never -14: clients then throw their contexts away, though only the login of svc is over.
    return refusal(error.code)
  }
}

/** The client must not learn from it whether a message was sent of which svc does not know that. */
function toSent({ message_id, status }: SendResult): object {
  if (status === 'unknown' || status === 'partial') return new Response(null, { status: 504 })
  return { ret: 0, ...(/^\d+$/.test(message_id ?? '') && { message_id }) }
}

function mediaOf({ file }: ClientSend, hash: string) {
  if (!file) return undefined
  const upload_id = unsign(hash, 'file', file.param)?.i
  if (typeof upload_id !== 'string') return 'unknown'
  return { kind: file.kind, upload_id, ...(file.name && { file_name: file.name }) }
}

async function sendTyping({ gateway, log }: DoorParts, { body, call, key }: Ask): Promise<object> {
  const read = readTyping(body, ticket => unsign(key.hash, 'ticket', ticket)?.u)
  if (!('user' in read)) return read
  // Best effort, as WeChat's: no turn of a client fails because of it.
  await invoke(showTyping, gateway, { to: read.user, typing: read.typing }, call, log).catch(error => {
    if (isSvcError(error, 'unauthorized') || isSvcError(error, 'forbidden')) throw error
  })
  return outcomes.done
}

async function getUploadUrl(parts: DoorParts, { request, body, call, key }: Ask): Promise<object> {
  await requireClient(parts, call)
  const upload = readUpload(body, parts.config.maxUploadBytes)
  if (!('kind' in upload)) return upload
  const { filekey, keyHex, ...file } = upload
  const signed = { ...file, key: keyHex, until: parts.gateway.clock.now() + uploadLifeMs }
  const param = `${key.id}.${sign(key.hash, 'upload', signed)}`
  return uploadAnswer(`${originOf(request)}${cdnPath}upload`, param, filekey)
}

function toAnswer(answer: object | string, status = 200): Response {
  const text = typeof answer === 'string' ? answer : formatAnswer(answer)
  return new Response(text, {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  })
}

/** Clients show the text, and try again later. */
const toErrorAnswer = (error: SvcError): Response =>
  error.code === 'store_unavailable' || error.code === 'shutting_down'
    ? toAnswer(failure(error.message), 503)
    : toProblemResponse(error)
