/** Media up to the CDN and down from it, as streams in bounded memory (protocol notes 2.9, 2.10). */
import { SvcError } from '../model/error.ts'
import { backoffMs, type Clock, systemClock } from '../platform/clock.ts'
import { fetchPublic } from '../platform/fetch.ts'
import type { Slots } from '../platform/slots.ts'
import { type ByteSource, decryptStream, paddedSize, parseAesKey } from './crypto.ts'
import type { MediaReference } from './decode.ts'
import { type Fetch, ILinkError, isILinkError, joinUrl, saidIn } from './http.ts'
import { complete, exactly, streamOf, watchIdle } from './progress.ts'

export interface CdnUpload {
  /** `upload_full_url` of getuploadurl; else the address is built of the next three. */
  url?: string
  uploadParam?: string
  cdnUrl: string
  filekey: string
  cipherSize: number
  /** The ciphertext from its beginning; called anew for each attempt. */
  body: () => AsyncIterable<Uint8Array>
  signal?: AbortSignal
  /** Told how many bytes the network took in this attempt. */
  progress?: (bytes: number) => void
}

export interface CdnDownload {
  cdnUrl: string
  signal?: AbortSignal
}

/** Plaintext on its way. The stream must be read to its end or cancelled. */
export interface OpenedDownload {
  stream: ReadableStream<Uint8Array>
  /** Plaintext bytes, only where certain. */
  size?: number
}

export interface CdnOptions {
  /** For the CDN and other addresses for which `trusted` says yes; it judges the others. Follows no redirect. */
  fetch: Fetch
  /** Whether an address is ours by configuration: upstream or CDN. */
  trusted: (url: URL) => boolean
  /** For all other addresses to download from: they come out of messages, so anybody may have written them. */
  guarded?: typeof fetchPublic
  clock?: Clock
  /** Longest silence of the other side. */
  idleMs?: number
  /** Of an upload: how long the other side may be silent in all its attempts together, beyond what its buffers may need. */
  patienceMs?: number
  /** How many transfers may be under way; no bound by default. */
  slots?: Slots
}

/** Spec says PUT, this CDN wants POST and answers PUT with 404 (notes 2.9). */
const postHosts = new Set(['novac2c.cdn.weixin.qq.com'])
const attempts = 3
const defaultIdleMs = 120_000
/** With these an upload of a small file that hangs is given up within 90 s, those included in which its address is asked for. */
const uploadIdleMs = 25_000
const defaultPatienceMs = 70_000
/** What may still lie in the buffers between us and the CDN when our last byte has gone out. */
const bufferedBytes = 4 * 1024 * 1024
/** The slowest upload reported (notes 2.9). */
const slowestBytesPerMs = 10
/** Of a server that is not ours by configuration, more is not read. */
const guardedLimitBytes = 4 * 1024 ** 3
const guardedLimitMs = 6 * 60 * 60_000
/** Hosts remembered with the method they take. */
const rememberedHosts = 200

type Method = 'PUT' | 'POST'

/** What every transfer needs: the options with their defaults. */
type Line = Required<Omit<CdnOptions, 'slots'>> & Pick<CdnOptions, 'slots'>

export interface Cdn {
  /**
   * Uploads ciphertext and gives the parameter it can be downloaded by.
   *
   * POST for WeChat's own CDN; elsewhere PUT, and once the other method on 404 or 405, remembered per host.
   *
   * @throws ILinkError: `http` on 4xx at once (get a new upload address then), else the last of three failures;
   *   the source's own error when reading it failed; the signal's reason when aborted
   */
  upload(upload: CdnUpload): Promise<{ downloadParam: string }>
  /**
   * Opens media as decrypted bytes, once the first of them is there. An image without any key is plain already.
   *
   * @throws SvcError `no_media` (no address), `media_expired` (4xx), `forbidden` (the address is not public),
   *   `upstream_error`, `upstream_timeout`; the stream fails with `upstream_error` when bytes are missing or the key
   *   does not fit, and with the signal's reason when aborted
   */
  download(media: MediaReference, where: CdnDownload): Promise<OpenedDownload>
}

export function createCdn(options: CdnOptions): Cdn {
  const usual = {
    guarded: fetchPublic,
    clock: systemClock,
    idleMs: defaultIdleMs,
    patienceMs: defaultPatienceMs,
  }
  const line: Line = { ...usual, ...options }
  const methods = new Map<string, Method>()
  return {
    upload: upload => uploadTo(line, methods, upload),
    download: (media, where) => openDownload(line, media, where),
  }
}

/** Runs `attempt` up to three times, pausing between; errors that a repeat cannot mend end it at once. */
async function persist<T>(
  clock: Clock,
  signal: AbortSignal | undefined,
  attempt: () => Promise<T>,
  isOver: () => boolean = () => false,
): Promise<T> {
  for (let tried = 1; ; tried++) {
    signal?.throwIfAborted()
    try {
      return await attempt()
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      if (!isILinkError(error) || isFinal(error) || tried >= attempts || isOver()) throw error
      await clock.sleep(backoffMs(tried - 1, 500, 4000), signal)
    }
  }
}

async function uploadTo(
  line: Line,
  methods: Map<string, Method>,
  upload: CdnUpload,
): Promise<{ downloadParam: string }> {
  const url = upload.url ?? uploadUrl(upload)
  const { host } = new URL(url)
  const fixed = postHosts.has(host)
  let method = fixed ? 'POST' : (methods.get(host) ?? 'PUT')
  let switched = fixed
  const silence = { leftMs: line.patienceMs }
  const downloadParam = await persist(
    line.clock,
    upload.signal,
    async () => {
      try {
        return await uploadOnce(line, url, method, upload, silence)
      } catch (error) {
        const isMethod = isILinkError(error, 'http') && [404, 405].includes(error.facts.status ?? 0)
        if (switched || !isMethod) throw error
        switched = true
        method = method === 'PUT' ? 'POST' : 'PUT'
        return uploadOnce(line, url, method, upload, silence)
      }
    },
    () => silence.leftMs <= 0,
  )
  if (!fixed) {
    const [oldest] = methods.keys()
    if (oldest !== undefined && methods.size >= rememberedHosts) methods.delete(oldest)
    methods.set(host, method)
  }
  return { downloadParam }
}

/**
 * One attempt, which takes the time that it was left without an answer from `silence`; what the buffers may need is not
 * counted. @returns the download parameter
 */
async function uploadOnce(
  line: Line,
  url: string,
  method: Method,
  upload: CdnUpload,
  silence: { leftMs: number },
): Promise<string> {
  const { cipherSize, progress, signal } = upload
  using _slot = await line.slots?.take(signal)
  const buffersMs = Math.min(cipherSize, bufferedBytes) / slowestBytesPerMs
  const idleMs = Math.min(line.idleMs, uploadIdleMs, silence.leftMs)
  const watch = watchIdle(idleMs + buffersMs, signal)
  const source: { failed?: unknown } = {}
  const body = exactly(upload.body(), cipherSize, watch, { source, progress })
  try {
    const response = await line.fetch(url, {
      method,
      headers: { 'Content-Type': 'application/octet-stream', 'Content-Length': String(cipherSize) },
      body,
      signal: watch.signal,
    })
    const param = response.headers.get('x-encrypted-param') ?? response.headers.get('x-encrypted-query-param')
    if (response.status === 200 && param) {
      await response.body?.cancel().catch(() => {})
      return param
    }
    throw await answeredBadly('upload', response)
  } catch (error) {
    // What stopped the source stops the request, whose own error then says less.
    const failed = source.failed ?? watch.translated(error, 'CDN upload')
    if (isILinkError(failed, 'timeout')) silence.leftMs -= idleMs
    throw failed
  } finally {
    watch.stop()
    // A server that answers early leaves the source half read: its file is to be closed all the same.
    void body.return(undefined).catch(() => {})
  }
}

async function openDownload(
  line: Line,
  media: MediaReference,
  { cdnUrl, signal }: CdnDownload,
): Promise<OpenedDownload> {
  const key = keyOf(media)
  const url = downloadUrl(media, cdnUrl)
  const open = line.trusted(url) || url.host === new URL(cdnUrl).host ? openDirect : openGuarded
  const slot = await line.slots?.take(signal)
  const watch = watchIdle(line.idleMs, signal)
  const stop = () => {
    watch.stop()
    slot?.[Symbol.dispose]()
  }
  try {
    const { body, size } = await persist(line.clock, signal, async () => {
      try {
        return await open(line, url, watch.signal)
      } catch (error) {
        throw watch.translated(error, 'CDN download')
      }
    })
    const cipher = complete(body, size, watch)
    const chunks = key ? decryptStream(cipher, key) : cipher
    // What fails before the first byte is still to be told: a stream that fails then ends an answer without a status.
    const first = await chunks.next()
    const stream = streamOf(chunks, stop, first)
    return { stream, size: plainSize(media, size, key !== undefined) }
  } catch (error) {
    stop()
    throw downloadError(error)
  }
}

interface OpenedBody {
  body: ByteSource
  /** Bytes of the body, only where certain. */
  size?: number
}

/** From upstream and the CDN. Where it redirects to is any other address. */
async function openDirect(line: Line, url: URL, signal: AbortSignal): Promise<OpenedBody> {
  const response = await line.fetch(url.href, { method: 'GET', signal })
  const location = response.headers.get('location')
  if (response.status >= 300 && response.status < 400 && location !== null) {
    await response.body?.cancel().catch(() => {})
    const target = URL.parse(location, url.href)
    if (target) return openGuarded(line, target, signal)
  }
  if (response.status !== 200) throw await answeredBadly('download', response)
  const stated = Number(response.headers.get('content-length') ?? Number.NaN)
  const exact = stated >= 0 && !response.headers.get('content-encoding')
  return { body: response.body ?? [], size: exact ? stated : undefined }
}

/** From any other address. */
const openGuarded = (
  { guarded, trusted, idleMs }: Line,
  url: URL,
  signal: AbortSignal,
): Promise<OpenedBody> =>
  guarded(url.href, {
    ...{ maxBytes: guardedLimitBytes, timeoutMs: guardedLimitMs, idleMs },
    ...{ signal, allow: trusted },
  })

/** A redirect and 4xx are upstream's last word; the rest may pass. */
const isFinal = (error: ILinkError) =>
  error.kind === 'http' &&
  error.facts.status !== undefined &&
  error.facts.status >= 300 &&
  error.facts.status < 500

/** A lone surrogate cannot be written in an address; the CDN then says that it does not know the parameter. */
const encoded = (param: string) => encodeURIComponent(param.toWellFormed())

function uploadUrl({ cdnUrl, uploadParam, filekey }: CdnUpload): string {
  if (uploadParam === undefined) throw new ILinkError('malformed', 'CDN upload: no upload address')
  const query = `encrypted_query_param=${encoded(uploadParam)}&filekey=${encoded(filekey)}`
  return joinUrl(cdnUrl, `upload?${query}`)
}

function downloadUrl({ info }: MediaReference, cdnUrl: string): URL {
  const full = info.full_url
  if (full && /^https?:/i.test(full) && URL.canParse(full)) return new URL(full)
  if (info.encrypt_query_param) {
    const query = `encrypted_query_param=${encoded(info.encrypt_query_param)}`
    return new URL(joinUrl(cdnUrl, `download?${query}`))
  }
  throw new SvcError('no_media', 'This item names no place to download from')
}

function keyOf({ info, kind }: MediaReference) {
  if (info.aes_key) return parseAesKey(info.aes_key)
  // Images without a key exist and are plain (protocol notes 4.1); for the rest it is a hole in the message.
  if (kind === 'image') return undefined
  throw new SvcError('upstream_error', 'This item came without its key', {
    hint: 'Ask the user to send it again.',
  })
}

/** Known for certain when plain, or when upstream's stated size fits the ciphertext; within its last block otherwise. */
function plainSize(media: MediaReference, cipherSize: number | undefined, encrypted: boolean) {
  if (!encrypted) return cipherSize
  return media.size !== undefined && paddedSize(media.size) === cipherSize ? media.size : undefined
}

async function answeredBadly(what: string, response: Response): Promise<ILinkError> {
  const errmsg = saidIn(response.headers.get('x-error-message'))
  await response.body?.cancel().catch(() => {})
  const lacking = response.status === 200 ? ' without its download parameter' : ''
  const detail = `CDN ${what}: HTTP ${response.status}${lacking}${errmsg ? `: ${errmsg}` : ''}`
  return new ILinkError('http', detail, { status: response.status, errmsg })
}

/** A failed download in the words of the catalogue. */
function downloadError(error: unknown): unknown {
  const status = isILinkError(error)
    ? error.facts.status
    : error instanceof SvcError
      ? Number(error.details?.http_status)
      : undefined
  if (status && status >= 400 && status < 500) {
    return new SvcError('media_expired', 'WeChat no longer has this media', {
      details: { http_status: status },
      cause: error,
    })
  }
  // The guard speaks of URLs that a caller gave; this one came from WeChat.
  if (error instanceof SvcError && error.code === 'invalid_arguments') {
    return new SvcError('upstream_error', 'The media cannot be fetched from where WeChat says it is', {
      cause: error,
    })
  }
  return error
}
