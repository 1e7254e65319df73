/**
 * The media addresses of the relay. Clients send no token there: the address proves by its signature that svc made it for a client.
 * Files pass as streams.
 */
import { Buffer } from 'node:buffer'
import { usageOf } from '../access/usage.ts'
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { decryptStream, encryptStream, paddedSizeOf } from '../ilink/crypto.ts'
import { streamOf } from '../ilink/progress.ts'
import { badArgument } from '../model/error.ts'
import { anyCaller, type Principal } from '../model/principal.ts'
import { invoke, toSvcError } from '../operations/gate.ts'
import { uploadMedia } from '../operations/media.ts'
import { relayDownload } from '../operations/relaying.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import type { Log } from '../platform/log.ts'
import { createByteCounter } from '../platform/memory.ts'
import type { Peer } from '../platform/serve.ts'
import { addressOf } from '../server/behind-proxy.ts'
import { checkContentLength, limitStream } from '../server/body.ts'
import { noteCaller } from '../server/caller.ts'
import { HttpCall, type ShutdownSignal } from '../server/http-call.ts'
import { answerWithinLimits, bindToCaller } from '../server/limits.ts'
import { mediaKeyOf, type Signed, sign, unsign } from './signed.ts'

export const cdnPath = '/ilink/c2c/'
export const isCdnPath = (path: string): boolean =>
  path === `${cdnPath}upload` || path === `${cdnPath}download`

/** What the parts of the door need. `by`: a caller who proved nothing. */
export interface DoorParts {
  readonly gateway: Gateway
  readonly log: Log
  readonly shutdown: ShutdownSignal
  readonly by: Principal
  readonly config: Pick<Config, 'maxUploadBytes'>
  /** Counts and slows down a call that proves nothing. @returns the answer, or a refusal if there are too many */
  throttle(answer: Response, address: string | undefined): Promise<Response>
}

/** What an address says, and the hash of the secret that signed it. */
interface Proved {
  readonly hash: string
  readonly payload: Signed
}

const refuse = (status: number, why: string): Response =>
  new Response(why, {
    status,
    headers: { 'content-type': 'text/plain', 'x-error-message': why.replace(/[^ -~]/g, '?') },
  })

export async function answerCdn(
  parts: DoorParts,
  request: Request,
  peer: Peer | undefined,
  path: string,
): Promise<Response> {
  const name = path.slice(cdnPath.length)
  const isUpload = name === 'upload' && request.method === 'POST'
  const isDownload = name === 'download' && request.method === 'GET'
  if (!isUpload && !isDownload) return refuse(404, 'not found')
  const address = () => addressOf(request, peer)
  const param = new URL(request.url).searchParams.get('encrypted_query_param') ?? ''
  const [id = '', ...signed] = param.split('.')
  let proved: Proved | undefined
  const proves = (hash: string) => {
    const payload = unsign(hash, isUpload ? 'upload' : 'media', signed.join('.'))
    if (!payload || Number(payload.until) < parts.gateway.clock.now()) return false
    proved = { hash, payload }
    return true
  }
  const by = /^[0-9a-z]{8}$/.test(id) ? await parts.gateway.keys.recognize(id, proves, address) : undefined
  if (!by || !proved)
    return answerWithinLimits(anyCaller, address, () =>
      parts.throttle(refuse(400, 'encrypted_query_param unknown or expired'), address()),
    )
  peer?.accept()
  noteCaller(request, by, peer)
  const own = proved
  return answerWithinLimits(by, address, async () => {
    const call = new HttpCall(request, parts)
    try {
      return await (isUpload ? upload(parts, call, own) : download(parts, call, own))
    } catch (error) {
      const known = toSvcError(error, parts.log, { signal: call.signal, requestId: call.requestId })
      // Clients give up after a 4xx, and try again three times else. Bytes that cannot be decrypted are the client's own.
      const isFinal = ['unauthorized', 'forbidden', isUpload && 'upstream_error'].includes(known.code)
      return refuse(isFinal ? 400 : known.status, known.problem)
    } finally {
      call.end()
    }
  })
}

// The address may be used again until it expires, as WeChat's (protocol notes 7.2): a client whose answer was lost posts once more.
// That is harmless: each upload has the same bytes, and counts for the key as the first one.
async function upload(
  { gateway, log }: DoorParts,
  call: HttpCall,
  { hash, payload }: Proved,
): Promise<Response> {
  const { key, kind, md5, size } = payload as Readonly<Record<string, string>> & { size: number }
  const { request } = call
  const limit = {
    maxBytes: paddedSizeOf(size),
    count: (bytes: number) => usageOf(call.by)?.countBytes(bytes),
  }
  checkContentLength(request.headers, limit)
  if (!request.body) return refuse(400, 'the file is missing')
  const plain = decryptStream(limitStream(request.body, limit), Buffer.from(key ?? '', 'hex'))
  const body = streamOf(checked(plain, { size, md5: String(md5) }), () => {})
  const input = { kind, file: { body, size } }
  const { upload_id } = await invoke(uploadMedia, gateway, input, call, log)
  return new Response(null, { headers: { 'x-encrypted-param': sign(hash, 'file', { i: upload_id }) } })
}

/** Passes the bytes on. @throws SvcError at the end if they are not the announced ones */
async function* checked(
  bytes: AsyncIterable<Uint8Array>,
  { md5, size }: { md5: string; size: number },
): AsyncGenerator<Uint8Array> {
  const hash = nodeCrypto().createHash('md5')
  const passed = createByteCounter()
  let count = 0
  for await (const chunk of bytes) {
    // Counts as three: what the network sent and what was decrypted of it pile up beside the file that is written.
    passed(3 * chunk.length)
    hash.update(chunk)
    count += chunk.length
    yield chunk
  }
  if (count !== size || hash.digest('hex') !== md5)
    throw badArgument('file', 'the bytes are not those that were announced')
}

async function download(
  { gateway, log }: DoorParts,
  call: HttpCall,
  { hash, payload }: Proved,
): Promise<Response> {
  const [message, item] = [String(payload.m), Number(payload.n)]
  const { media } = await invoke(relayDownload, gateway, { message_id: message, item }, call, log)
  const { size, stream } = media
  const body = streamOf(encryptStream(stream, mediaKeyOf(hash, message, item)), () => {})
  const headers = {
    'content-type': 'application/octet-stream',
    ...(size !== undefined && { 'content-length': String(paddedSizeOf(size)) }),
  }
  return bindToCaller(new Response(body, { headers }), call.by)
}
