/** Tencent's iLink API as a fetch handler (protocol notes 2 and 7.2). */
import type { MediaKind } from '../model/message.ts'
import { attempt } from '../platform/fields.ts'
import type { Bot } from './people.ts'
import { type Fields, fieldsOf, newTypingTicket, parseWire, textOf, toWire } from './wire.ts'
import type { World } from './world.ts'

interface ApiRequest {
  bot: Bot | undefined
  body: Fields
  query: URLSearchParams
  origin: string
  host: string
  signal: AbortSignal
}
/** Answer as JSON text, as a value, or as the whole response; undefined if the client disconnected. */
type Answer = string | Fields | Response | undefined

interface Endpoint {
  path: string
  methods: readonly string[]
  /** Returns undefined if the client disconnected, or if the call needs a token and `bot` is undefined. */
  answer(ask: ApiRequest): Answer | Promise<Answer>
  /** True if the call needs a bot's token. */
  auth: boolean
}

/** The calls that the value `all` of the switch `refused` covers. */
const expirableCalls = ['sendmessage', 'sendtyping', 'getconfig', 'getuploadurl']

const uploadKinds: Record<number, MediaKind> = { 1: 'image', 2: 'video', 3: 'file', 4: 'voice' }

/** Creates the handler for requests below `/ilink/bot/`. */
export function createEmulator(world: World): (request: Request, url: URL) => Promise<Response> {
  const endpoints = new Map(createEndpoints(world).map(endpoint => [`/ilink/bot/${endpoint.path}`, endpoint]))
  const { core, people, intercept } = world

  return async (request, url) => {
    const endpoint = endpoints.get(url.pathname)
    if (!endpoint) return toJsonResponse({ ret: -1, errmsg: 'not found' }, 404)
    if (!endpoint.methods.includes(request.method))
      return toJsonResponse({ ret: -1, errmsg: 'method not allowed' }, 405)
    const name = endpoint.path.replace('msg/', '')
    core.stats.requests[name] = (core.stats.requests[name] ?? 0) + 1

    const token = /^Bearer\s+(.*)$/i.exec(request.headers.get('authorization') ?? '')?.[1]?.trim()
    const bot = token ? people.findBotByToken(token) : undefined
    const { signal } = request
    const text = request.method === 'POST' ? await request.text() : ''
    const honest = async (): Promise<Response | undefined> => {
      const { refused } = core.switches
      if (endpoint.auth && !bot?.live) return toJsonResponse(createExpiredAnswer(world))
      if (refused === name || (refused === 'all' && expirableCalls.includes(name)))
        return toJsonResponse(createExpiredAnswer(world))
      const body = attempt(() => fieldsOf(parseWire(text || '{}')))
      if (!body) return toJsonResponse(invalidArguments)
      const host = request.headers.get('host') ?? url.host
      const answer = await endpoint.answer({
        bot,
        body,
        query: url.searchParams,
        origin: url.origin,
        host,
        signal,
      })
      return answer === undefined || answer instanceof Response ? answer : toJsonResponse(answer)
    }
    const response = await intercept({ endpoint: name, bot: bot?.id, body: text, signal }, honest)
    // The client disconnected; nobody reads this response.
    return response ?? new Response(null, { status: 499 })
  }
}

const createEndpoints = (world: World): Endpoint[] => [
  ...createLoginEndpoints(world),
  ...createPollEndpoints(world),
  ...createSendEndpoints(world),
]

/** Defines an endpoint that a bot calls with its token. */
const defineBotEndpoint = (
  path: string,
  answer: (ask: ApiRequest & { bot: Bot }) => Answer | Promise<Answer>,
): Endpoint => ({
  path,
  methods: ['POST'],
  auth: true,
  answer: ask => ask.bot && answer({ ...ask, bot: ask.bot }),
})

const createSuccess = ({ core }: World): Fields =>
  core.switches.ret === 'present' ? { ret: 0, errmsg: '' } : {}

const createLoginEndpoints = ({ logins }: World): Endpoint[] => [
  {
    path: 'get_bot_qrcode',
    methods: ['GET', 'POST'],
    auth: false,
    answer({ body }) {
      const tokens = Array.isArray(body.local_token_list)
        ? body.local_token_list.filter(token => typeof token === 'string')
        : []
      const login = logins.create(tokens)
      return { ret: 0, qrcode: login.qrcode, qrcode_img_content: login.url }
    },
  },
  {
    path: 'get_qrcode_status',
    methods: ['GET'],
    auth: false,
    answer: ({ query, host, origin, signal }) =>
      logins.status(
        query.get('qrcode') ?? '',
        query.get('verify_code') ?? undefined,
        { host, origin },
        signal,
      ),
  },
]

function createPollEndpoints(world: World): Endpoint[] {
  const { core, people, inbox } = world
  return [
    defineBotEndpoint('msg/notifystart', ({ bot }) => {
      if (core.switches.notifystart === 'fail') return new Response('', { status: 500 })
      people.setStarted(bot.id, 'started')
      inbox.recordReceiveStep(bot.id, 'start')
      return createSuccess(world)
    }),
    defineBotEndpoint('msg/notifystop', ({ bot }) => {
      people.setStarted(bot.id, 'stopped')
      return createSuccess(world)
    }),
    defineBotEndpoint('getupdates', async ({ bot, body, signal }) => {
      core.stats.polls_now++
      try {
        const found = await inbox.poll(bot, textOf(body.get_updates_buf), signal)
        if (found === undefined) return undefined
        if (found === 'expired') return createExpiredAnswer(world)
        if (found === 'lapsed') return createSuccess(world)
        if (found === 'cut') return createCutResponse(core.switches.hold_cut)
        const { ret, longpolling_timeout_ms } = core.switches
        // Joined as text: the messages are stored as JSON text with their uint64 ids, so nothing is parsed
        // here.
        return `{${ret === 'present' ? '"ret":0,' : ''}"msgs":[${found.wires.join(',')}],"get_updates_buf":${JSON.stringify(found.cursor)}${longpolling_timeout_ms ? `,"longpolling_timeout_ms":${longpolling_timeout_ms}` : ''}}`
      } finally {
        core.stats.polls_now--
      }
    }),
  ]
}

function createSendEndpoints(world: World): Endpoint[] {
  const { core, people, outbox } = world
  const needUser = { ret: -2, errmsg: 'ilink_user_id required' }
  return [
    defineBotEndpoint('sendmessage', ({ bot, body }) => outbox.send(bot, body)),
    defineBotEndpoint('getconfig', ({ bot, body }) => {
      const userId = textOf(body.ilink_user_id)
      if (!userId) return needUser
      if (!people.findUser(userId)) return invalidArguments
      const peer = people.loadPeer(bot.id, userId)
      const ticket = peer.ticket ?? newTypingTicket()
      if (!peer.ticket) people.savePeer({ ...peer, ticket })
      // Always with `ret`: the official client takes an answer without it for a failure.
      return { ret: 0, errmsg: '', typing_ticket: ticket }
    }),
    defineBotEndpoint('sendtyping', ({ bot, body }) => {
      const userId = textOf(body.ilink_user_id)
      if (!userId) return needUser
      const peer = people.loadPeer(bot.id, userId)
      if (!peer.ticket || peer.ticket !== body.typing_ticket)
        return { ret: -2, errmsg: 'invalid typing_ticket' }
      const { typing_ms } = core.switches
      people.savePeer({ ...peer, typing_until: body.status === 1 ? core.now() + typing_ms : 0 })
      core.notifyChange()
      // Notify listeners when the typing indicator ends.
      if (body.status === 1)
        void core.clock.sleep(typing_ms + 50, core.closing).then(() => core.notifyChange())
      return createSuccess(world)
    }),
    defineBotEndpoint('getuploadurl', ask => reserveUpload(world, ask)),
  ]
}

const invalidArguments: Fields = { ret: -3, errmsg: 'invalid arguments' }

/** Reserves an upload and returns the addresses for the file's bytes. */
function reserveUpload(world: World, { body, origin }: ApiRequest): Fields {
  const kind = uploadKinds[Number(body.media_type)]
  const [filekey, key] = [textOf(body.filekey), textOf(body.aeskey)]
  const [rawSize, cipherSize] = [Number(body.rawsize), Number(body.filesize)]
  if (!world.people.findUser(textOf(body.to_user_id))) return { ret: -1 }
  const padded = (Math.floor(rawSize / 16) + 1) * 16
  if (!kind || !filekey || !/^[0-9a-f]{32}$/i.test(key) || cipherSize !== padded) return invalidArguments
  const piece = world.media.announce({
    kind,
    filekey,
    key_hex: key,
    raw_size: rawSize,
    cipher_size: cipherSize,
    md5: textOf(body.rawfilemd5),
  })
  const { upload_url } = world.core.switches
  const query = `encrypted_query_param=${encodeURIComponent(piece.upload_param ?? '')}&filekey=${encodeURIComponent(filekey)}`
  return {
    ...createSuccess(world),
    ...(upload_url !== 'legacy' && {
      upload_full_url: `${origin}/c2c/upload?${query}&taskid=${piece.id}`,
    }),
    ...(upload_url !== 'full' && { upload_param: piece.upload_param }),
    ...(upload_url !== 'full' && body.no_need_thumb !== true && { thumb_upload_param: piece.upload_param }),
  }
}

function createExpiredAnswer({ core }: World): Fields {
  const { expired_form } = core.switches
  return {
    ...(expired_form !== 'errcode' && { ret: -14 }),
    ...(expired_form !== 'ret' && { errcode: -14 }),
    errmsg: 'session timeout',
  }
}

const toJsonResponse = (answer: string | Fields, status = 200) =>
  new Response(typeof answer === 'string' ? answer : toWire(answer), {
    status,
    headers: { 'content-type': 'application/json' },
  })

/** Returns the response of a proxy that ends a long poll: an error page (524), or a closed connection. */
const createCutResponse = (how: string): Response =>
  how === '524'
    ? new Response('<!DOCTYPE html><title>524: A timeout occurred</title>', {
        status: 524,
        headers: { 'content-type': 'text/html' },
      })
    : new Response(new ReadableStream({ start: controller => controller.error() }))
