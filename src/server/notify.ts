/**
 * The door for programs that notify: `/notify/<topic>`. It takes what clients of ntfy, Apprise, Alertmanager, Grafana,
 * GitHub and Home Assistant send (`notify/read.ts`), and each proves itself in its own way.
 *
 * ntfy's clients know only `/<topic>`, `/<topic>/…` and `/`. Such a request gets the path of this door, if no path of svc
 * begins like it.
 */
import { Buffer } from 'node:buffer'
import { Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { hasKeyForm, isSameHash } from '../access/secret.ts'
import { usageOf } from '../access/usage.ts'
import { onlyNotifies } from '../model/access.ts'
import { badArgument, type ErrorCode, isSvcError, SvcError } from '../model/error.ts'
import { firstSegments } from '../model/paths.ts'
import { anyCaller, type Principal } from '../model/principal.ts'
import { optional } from '../model/shapes.ts'
import { type AcceptedNotice, priorities, type TopicForDoor } from '../model/topic.ts'
import { normalizeTopicName, topicForm } from '../model/topic-name.ts'
import { invoke } from '../operations/gate.ts'
import { acceptNotices, maxFileBytes, type SentNotice } from '../operations/notices.ts'
import { attempt } from '../platform/fields.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { parseLossless } from '../platform/lossless.ts'
import { authorizationOf, type Guard, type Identity } from './auth.ts'
import { checkContentLength, readBodyBytes, rejectCompressed, releaseBody } from './body.ts'
import { noteCaller, principalOf } from './caller.ts'
import { HttpCall } from './http-call.ts'
import { githubEvent } from './notify/forges.ts'
import { readBodyForm } from './notify/form.ts'
import { fieldText } from './notify/names.ts'
import { type ReadNotices, readNotices } from './notify/read.ts'
import { textAt } from './notify/sent-notice.ts'
import { isHead, pathOf, queryOf } from './paths.ts'
import {
  guardErrors,
  jsonAnswer,
  type RouteContext,
  toElysiaSchema,
  toErrorAnswer,
  toRouteDetail,
} from './route.ts'

/** A form or JSON may have files in base64, which take a third more. */
const maxBodyBytes = Math.ceil((maxFileBytes * 4) / 3) + 1024 * 1024
/** Limit of a body whose sender is known by its signature, for which it has to be read. */
const maxSignedBytes = 4 * 1024 * 1024

const door = '/notify'
const ownSegments = new Set(firstSegments)
/** The words of ntfy for a GET that sends. */
const sendingWords = new Set(['publish', 'send', 'trigger'])
/** Clients of Gotify add it to the address of their server. @see https://gotify.net/docs/pushmsg */
const gotifyWord = 'message'

/** Whether a path is one of this door. */
export const isNoticePath = (path: string): boolean => path === door || path.startsWith(`${door}/`)

/** Requests by an address of ntfy, which any mistyped path looks like. */
const ntfyRequests = new WeakSet<Request>()
/** Clients ask it whether their token is right. @see https://docs.ntfy.sh/publish/#authentication */
const accountPath = '/v1/account'

/** Returns a part of a path as it was meant; it stays as it is if that is not UTF-8. */
const decode = (part: string): string => attempt(() => normalizeTopicName(decodeURIComponent(part))) ?? part

/** Gives a request by an address of ntfy the path of this door. A slash at the end is taken off. */
export function takeNtfyAddress(request: Request): void {
  const { method, url } = request
  const path = pathOf(url)
  const plain = path.replace(/\/$/, '')
  const segments = plain.slice(1).split('/')
  if (ownSegments.has(segments[0] ?? '') && plain !== accountPath && !isNoticePath(path)) return
  const [first = '', last = '', ...others] = segments.map(decode)
  const isSend = method === 'POST' || method === 'PUT' || (method === 'GET' && sendingWords.has(last))
  const isTopic = topicForm.test(first) && /^[\w-]{0,64}$/.test(last) && others.length === 0
  const isNtfy = plain === accountPath || (isSend && (plain === '' || (isTopic && !ownSegments.has(first))))
  if (!isNtfy && !(isNoticePath(path) && plain !== path)) return
  const start = url.indexOf('://') + 3
  const host = url.slice(start).split(/[/?]/, 1)[0]
  const query = url.indexOf('?')
  const value = `${url.slice(0, start)}${host}${isNtfy ? door : ''}${plain}${query < 0 ? '' : url.slice(query)}`
  if (isNtfy) ntfyRequests.add(request)
  // Changed in place: the server identifies the connection by this object.
  Object.defineProperty(request, 'url', { value, configurable: true })
}

/**
 * Returns who sends to a topic. The key is a bearer token, the password of Basic, in the header of Gotify, or in the address:
 * `auth`, which is ntfy's, or `key`. Any caller, if the request is signed instead: then the signature is still to be checked.
 */
export async function identifySender(
  guard: Pick<Guard, 'identify' | 'hostDenialOf' | 'pageDenialOf'>,
  request: Request,
  address: () => string | undefined,
): Promise<Identity> {
  const denial = guard.pageDenialOf(request, false)
  if (denial) return denial
  const { auth, authorization = auth, key } = queryOf(request)
  const inAddress = key ?? (authorization && tokenIn(Buffer.from(authorization, 'base64url').toString()))
  const header = authorizationOf(request)
  const ofGotify = request.headers.get('x-gotify-key') ?? undefined
  const token = inAddress ?? (header === undefined ? ofGotify : tokenIn(header))
  if (token === undefined && signatureOf(request) !== undefined)
    return guard.hostDenialOf(request, false) ?? anyCaller
  const by = await guard.identify(request, false, address, token)
  const mayBeInAddress = by instanceof SvcError || (by.grant && onlyNotifies(by.grant))
  if (inAddress === undefined || mayBeInAddress) return by
  return new SvcError('forbidden', 'A key in an address must not open anything but topics', {
    hint: 'Proxies log addresses. Send this key in the Authorization header, or make one with svc key add --can notify.',
  })
}

/** Returns the key in an Authorization header; '', which is never right, for any other header. */
function tokenIn(header: string): string {
  const [, scheme = '', value = ''] = /^(bearer|basic) +([^\s,]+) *$/i.exec(header.trim()) ?? []
  if (scheme.toLowerCase() !== 'basic') return value
  const [, user = '', password = ''] = /^([^:]*):?(.*)$/s.exec(Buffer.from(value, 'base64').toString()) ?? []
  return hasKeyForm(user) ? user : password
}

const signatureOf = ({ headers }: Request): string | undefined =>
  headers.has(githubEvent) ? (headers.get('x-hub-signature-256') ?? undefined) : undefined

/** @see https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries */
function hasSignature(request: Request, bytes: Uint8Array, secret = ''): boolean {
  const [, hex] = /^sha256=([0-9a-f]{64})$/.exec(signatureOf(request) ?? '') ?? []
  const right = nodeCrypto().createHmac('sha256', secret).update(bytes).digest('hex')
  return hex !== undefined && isSameHash(hex, right) && secret !== ''
}

/** The caller that a topic's signature proves. */
const signerOf = (topic: string): Principal => ({
  kind: 'open',
  id: topic,
  grant: { rights: ['notify'], topics: [topic] },
})

const wrongSignatureError = () =>
  new SvcError('unauthorized', 'The signature is wrong, or the topic has no secret', {
    hint: 'Give the webhook the secret of svc topic change <name> --secret.',
  })

const sentLimit = (maxBytes: number) => ({ maxBytes, hint: 'Send a smaller file.' })

/** Reads the body of a request. @throws SvcError `payload_too_large`, `rate_limited` */
async function readSent(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(await readBodyBytes(request, sentLimit(maxBytes)))
  usageOf(principalOf(request))?.countBytes(bytes.length)
  return bytes
}

type Query = Readonly<Record<string, string>>

/** Whether a query has a text or a title. */
const isSaid = (query: Query): boolean =>
  (['message', 'title'] as const).some(field => fieldText({ headers: new Headers(), query }, field) !== '')

/** Returns a notice as ntfy answers. @see https://docs.ntfy.sh/subscribe/api/#json-message-format */
const toNtfyMessage = ({ id, topic, received_at, expires_at }: AcceptedNotice, notice: SentNotice) => ({
  id,
  time: Math.floor(received_at / 1000),
  expires: Math.floor(expires_at / 1000),
  event: 'message',
  topic,
  title: notice.title,
  message: notice.text || notice.title || notice.file?.name || 'attachment',
  priority: priorities.indexOf(notice.priority) + 1,
  tags: notice.tags,
  click: notice.click,
})

/** The parts of a path of the door. `last` is a word of ntfy for a GET, or the id of a sequence. */
interface Place {
  readonly topic?: string | null
  readonly last?: string
}

async function answerSender(
  request: Request,
  { topic: sent, last = '' }: Place,
  context: RouteContext,
): Promise<Response> {
  // A part that is not UTF-8 is null.
  const named = sent === undefined ? undefined : decode(sent ?? '')
  const isSigned = principalOf(request)?.kind === 'open'
  const hasTopic = topicForm.test(named ?? '')
  // What the signature proves. It is checked when the secret of the topic is known.
  if (isSigned && hasTopic) noteCaller(request, signerOf(named ?? ''))
  const call = new HttpCall(request, context)
  try {
    const isWord = sendingWords.has(last)
    const query: Query = { ...(last && !isWord && last !== gotifyWord && { sid: last }), ...queryOf(request) }
    if (isHead(request)) throw new SvcError('method_not_allowed', 'HEAD sends nothing')
    if (request.method === 'GET' && `/${named}/${last}` === accountPath && !isSaid(query))
      return new Response(JSON.stringify(ntfyAccount), jsonAnswer)
    if (request.method === 'GET' && !isWord && !isSaid(query))
      throw badArgument('message', 'expected the text in the query or the body')
    // What the headers say is judged the same for every name.
    const maxBytes = isSigned ? maxSignedBytes : maxBodyBytes
    rejectCompressed(request.headers)
    checkContentLength(request.headers, sentLimit(maxBytes))
    if (isSigned && !hasTopic) throw wrongSignatureError()
    const sources = { headers: request.headers, query }
    // A signed body is read for every name: how long that takes does not tell which topics have a secret.
    const sent = isSigned || named === undefined ? await readSent(request, maxBytes) : undefined
    const early = sent && !isSigned ? await readBodyForm(sources, sent, parseLossless) : undefined
    const topic = named ?? normalizeTopicName(textAt(early?.json, 'topic'))
    if (!topicForm.test(topic))
      throw badArgument('topic', 'expected the JSON of ntfy, or the name of a topic in the address')
    let notices: ReadNotices | undefined
    const read = async ({ secret, ...about }: TopicForDoor) => {
      const bytes = sent ?? (await readSent(request, maxBytes))
      // What anybody may have sent is not parsed.
      if (isSigned && !hasSignature(request, bytes, secret)) throw wrongSignatureError()
      const body = early ?? (await readBodyForm(sources, bytes, parseLossless))
      const dialect = named === undefined ? 'ntfy' : last === gotifyWord ? 'gotify' : undefined
      notices = readNotices(sources, body, about, dialect)
      return notices.notices
    }
    const accepted = await invoke(acceptNotices, context.gateway, { topic, read }, call, context.log)
    const [first, notice] = [accepted[0], notices?.notices[0]]
    const answer = notices?.isNtfy && first && notice ? toNtfyMessage(first, notice) : { notices: accepted }
    return new Response(JSON.stringify(answer), jsonAnswer)
  } catch (error) {
    const isUnknown = isSvcError(error) && error.code === 'not_found'
    const isPath = isUnknown && ntfyRequests.has(request)
    return toErrorAnswer(
      isSigned && isUnknown ? wrongSignatureError() : isPath ? unknownPathError(error) : error,
      context,
      acceptNotices.name,
      call,
      isSvcError(error) && error.field === 'priority' ? 400 : undefined,
    )
  } finally {
    releaseBody(request)
    call.end()
  }
}

/** A path that svc does not have may be mistyped, or an address of ntfy. */
const unknownPathError = ({ hint }: SvcError) =>
  new SvcError('not_found', 'There is nothing at this path, and no topic of this name', {
    hint: `See /docs for paths. ${hint}`,
  })

/** What ntfy's clients read of an account; nothing is said of the caller. */
const ntfyAccount = {
  username: '*',
  role: 'user',
  stats: Object.fromEntries(
    'messages emails calls reservations attachment_total_size'
      .split(' ')
      .flatMap(name => [name, `${name}_remaining`])
      .map(name => [name, 0]),
  ),
}

const errors: readonly ErrorCode[] = [
  'not_found',
  'invalid_arguments',
  'payload_too_large',
  'unsupported_media_type',
  'store_unavailable',
  ...guardErrors,
]
const text = { type: 'string' } as const
const documented = {
  parse: 'none' as const,
  params: toElysiaSchema({ type: 'object', required: ['topic'], properties: { topic: text } }),
  response: { 200: toElysiaSchema(Type.Object({ notices: optional(acceptNotices.output) })) },
  detail: {
    operationId: 'notify_in_any_form',
    summary: 'Notify a topic as ntfy, Apprise, Alertmanager and others do',
    description:
      'Takes what clients of ntfy, Apprise, Alertmanager, Grafana, GitHub and Home Assistant send, and any JSON, form, text or file; programs that know svc rather use `POST /topics/{topic}/notices`. PUT does the same, and GET with `message` in the query; also `/<topic>`, and `/` with the JSON of ntfy. To a client of ntfy the answer is a message of ntfy. The key is a bearer token, the password of Basic, or in the query (`auth` as in ntfy, or `key`) if it opens nothing but topics.',
    tags: ['topics'],
    ...toRouteDetail({
      errors,
      requestBody: {
        // Generators know what to do with one kind of body. The text above names the others.
        content: { 'text/plain': { schema: text } },
      },
    }),
  },
}

/** Adds the routes of the door. */
export function addNoticeRoutes(app: Elysia, context: RouteContext): void {
  const answer = ({ request, params = {} }: { request: Request; params?: Place }) =>
    answerSender(request, params, context)
  const hidden = { parse: 'none' as const, detail: { hide: true } }
  app.post(`${door}/:topic`, answer, documented)
  app.put(`${door}/:topic`, answer, hidden)
  app.get(`${door}/:topic`, answer, hidden)
  for (const method of ['POST', 'PUT', 'GET']) app.route(method, `${door}/:topic/:last`, answer, hidden)
  for (const method of ['POST', 'PUT']) app.route(method, door, answer, hidden)
}
