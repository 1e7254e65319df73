/** Uploads media to the CDN and downloads it, as streams in bounded memory (protocol notes 2.9, 2.10). */
import { SvcError } from '../model/error.ts'
import { backoffMs, type Clock, systemClock } from '../platform/clock.ts'
import { fetchPublic } from '../platform/fetch.ts'
import type { Permits } from '../platform/permits.ts'
import { type ByteSource, decryptStream, paddedSizeOf, parseAesKey } from './crypto.ts'
import type { MediaReference } from './decode.ts'
import { type Fetch, ILinkError, isILinkError, joinUrl, upstreamTextOf } from './http.ts'
import { streamOf, watchIdle, yieldComplete, yieldExactly } from './progress.ts'

interface CdnUpload {
  /** `upload_full_url` of getuploadurl. Without it the URL is built from the next three fields. */
  url?: string
  uploadParam?: string
  cdnUrl: string
  filekey: string
  cipherSize: number
  /** Returns the ciphertext from its beginning. Called again for each attempt. */
  body: () => AsyncIterable<Uint8Array>
  signal?: AbortSignal
  /** Called with the number of bytes that the network took in this attempt. */
  progress?: (bytes: number) => void
}

interface CdnDownload {
  cdnUrl: string
  signal?: AbortSignal
}

/** A download in plaintext. Read the stream to its end or cancel it. */
export interface OpenedDownload {
  stream: ReadableStream<Uint8Array>
  /** Plaintext bytes, only where they are certain. */
  size?: number
}

export interface CdnOptions {
  /**
   * Reaches the CDN and every address that `trusted` accepts; checks all other addresses. Follows no
   * redirect.
   */
  fetch: Fetch
  /** Returns whether an address is configured: upstream or CDN. */
  trusted: (url: URL) => boolean
  /** Downloads from all other addresses. They come out of messages, so anybody may have written them. */
  guarded?: typeof fetchPublic
  clock?: Clock
  /** Longest silence of the other side, in ms. */
  idleMs?: number
  /**
   * For an upload: longest silence in all its attempts together, in ms, beyond the time that buffers may
   * need.
   */
  patienceMs?: number
  /** Limits the transfers at the same time; unlimited by default. */
  permits?: Permits
}

/** The specification says PUT, but this CDN needs POST and answers PUT with 404 (notes 2.9). */
const postHosts = new Set(['novac2c.cdn.weixin.qq.com'])
const attempts = 3
const defaultIdleMs = 120_000
/**
 * With these limits, a small upload that hangs is given up within 90 s, including the attempts to get its
 * address.
 */
const uploadIdleMs = 25_000
const defaultPatienceMs = 70_000
/** The most that may still be in buffers between svc and the CDN when the last byte was sent. */
const bufferedBytes = 4 * 1024 * 1024
/** The slowest upload that was reported (notes 2.9). */
const slowestBytesPerMs = 10
/** Limit for a download from a server that is not configured. */
const guardedLimitBytes = 4 * 1024 ** 3
const guardedLimitMs = 6 * 60 * 60_000
/** Limit of the hosts whose method is remembered. */
const rememberedHosts = 200

type Method = 'PUT' | 'POST'

/** What every transfer needs: the options with defaults filled in. */
type TransferOptions = Required<Omit<CdnOptions, 'permits'>> & Pick<CdnOptions, 'permits'>

export interface Cdn {
  /**
   * Uploads ciphertext and returns the parameter for downloading it.
   *
   * Uses POST for WeChat's own CDN. Elsewhere it uses PUT, and tries the other method once after 404 or 405;
   * the method is remembered per host.
   *
   * @throws ILinkError: `http` at once on 4xx (then request a new upload address), otherwise the last of
   *   three failures; the source's own error when reading it failed; the signal's reason when aborted
   */
  upload(upload: CdnUpload): Promise<{ downloadParam: string }>
  /**
   * Opens media as decrypted bytes, and resolves when the first of them are there. An image without a key is
   * plain.
   *
   * @throws SvcError `no_media` (no address), `media_expired` (4xx), `forbidden` (the address is not public),
   *   `upstream_error`, `upstream_timeout`; the stream fails with `upstream_error` when bytes are missing or
   *   the key does not fit, and with the signal's reason when aborted
   */
  download(media: MediaReference, where: CdnDownload): Promise<OpenedDownload>
}

export function createCdn(options: CdnOptions): Cdn {
  const defaults = {
    guarded: fetchPublic,
    clock: systemClock,
    idleMs: defaultIdleMs,
    patienceMs: defaultPatienceMs,
  }
  const line: TransferOptions = { ...defaults, ...options }
  const methods = new Map<string, Method>()
  return {
    upload: upload => uploadWithRetries(line, methods, upload),
    download: (media, where) => openDownload(line, media, where),
  }
}

/** Runs `attempt` up to three times, with pauses. Stops at once on an error that a repeat cannot fix. */
async function retry<T>(
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

async function uploadWithRetries(
  line: TransferOptions,
  methods: Map<string, Method>,
  upload: CdnUpload,
): Promise<{ downloadParam: string }> {
  const url = upload.url ?? uploadUrlOf(upload)
  const { host } = new URL(url)
  const isFixed = postHosts.has(host)
  let method = isFixed ? 'POST' : (methods.get(host) ?? 'PUT')
  let isSwitched = isFixed
  const silence = { leftMs: line.patienceMs }
  const downloadParam = await retry(
    line.clock,
    upload.signal,
    async () => {
      try {
        return await uploadOnce(line, url, method, upload, silence)
      } catch (error) {
        const isMethodError = isILinkError(error, 'http') && [404, 405].includes(error.facts.status ?? 0)
        if (isSwitched || !isMethodError) throw error
        isSwitched = true
        method = method === 'PUT' ? 'POST' : 'PUT'
        return uploadOnce(line, url, method, upload, silence)
      }
    },
    () => silence.leftMs <= 0,
  )
  if (!isFixed) {
    const [oldest] = methods.keys()
    if (oldest !== undefined && methods.size >= rememberedHosts) methods.delete(oldest)
    methods.set(host, method)
  }
  return { downloadParam }
}

/**
 * Makes one attempt. Subtracts the time without an answer from `silence`, except the time that buffers may
 * need.
 *
 * @returns the download parameter
 */
async function uploadOnce(
  line: TransferOptions,
  url: string,
  method: Method,
  upload: CdnUpload,
  silence: { leftMs: number },
): Promise<string> {
  const { cipherSize, progress, signal } = upload
  using _slot = await line.permits?.take(signal)
  const buffersMs = Math.min(cipherSize, bufferedBytes) / slowestBytesPerMs
  const idleMs = Math.min(line.idleMs, uploadIdleMs, silence.leftMs)
  const watch = watchIdle(idleMs + buffersMs, signal)
  const source: { failed?: unknown } = {}
  const body = yieldExactly(upload.body(), cipherSize, watch, { source, progress })
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
    throw await readCdnError('upload', response)
  } catch (error) {
    // An error in the source also ends the request, whose own error then says less.
    const failed = source.failed ?? watch.translate(error, 'CDN upload')
    if (isILinkError(failed, 'timeout')) silence.leftMs -= idleMs
    throw failed
  } finally {
    watch.stop()
    // A server that answers early leaves the source half read. Its file must still be closed.
    void body.return(undefined).catch(() => {})
  }
}

async function openDownload(
  line: TransferOptions,
  media: MediaReference,
  { cdnUrl, signal }: CdnDownload,
): Promise<OpenedDownload> {
  const key = keyOf(media)
  const url = downloadUrlOf(media, cdnUrl)
  const open = line.trusted(url) || url.host === new URL(cdnUrl).host ? openDirect : openGuarded
  const slot = await line.permits?.take(signal)
  const watch = watchIdle(line.idleMs, signal)
  const stop = () => {
    watch.stop()
    slot?.[Symbol.dispose]()
  }
  try {
    const { body, size } = await retry(line.clock, signal, async () => {
      try {
        return await open(line, url, watch.signal)
      } catch (error) {
        throw watch.translate(error, 'CDN download')
      }
    })
    const cipher = yieldComplete(body, size, watch)
    const chunks = key ? decryptStream(cipher, key) : cipher
    // Read the first chunk before returning: a stream that fails later ends a response whose status is
    // already sent.
    const first = await chunks.next()
    const stream = streamOf(chunks, stop, first)
    return { stream, size: plainSizeOf(media, size, key !== undefined) }
  } catch (error) {
    stop()
    throw downloadErrorOf(error)
  }
}

interface OpenedBody {
  body: ByteSource
  /** Bytes of the body, only where certain. */
  size?: number
}

/** Downloads from upstream and the CDN. A redirect target counts as any other address. */
async function openDirect(line: TransferOptions, url: URL, signal: AbortSignal): Promise<OpenedBody> {
  const response = await line.fetch(url.href, { method: 'GET', signal })
  const location = response.headers.get('location')
  if (response.status >= 300 && response.status < 400 && location !== null) {
    await response.body?.cancel().catch(() => {})
    const target = URL.parse(location, url.href)
    if (target) return openGuarded(line, target, signal)
  }
  if (response.status !== 200) throw await readCdnError('download', response)
  const stated = Number(response.headers.get('content-length') ?? Number.NaN)
  const exact = stated >= 0 && !response.headers.get('content-encoding')
  return { body: response.body ?? [], size: exact ? stated : undefined }
}

/** Downloads from any other address. */
const openGuarded = (
  { guarded, trusted, idleMs }: TransferOptions,
  url: URL,
  signal: AbortSignal,
): Promise<OpenedBody> =>
  guarded(url.href, {
    maxBytes: guardedLimitBytes,
    timeoutMs: guardedLimitMs,
    idleMs,
    signal,
    allow: trusted,
  })

/** Whether a repeat is useless: redirects and 4xx are final, other failures may be temporary. */
const isFinal = (error: ILinkError) =>
  error.kind === 'http' &&
  error.facts.status !== undefined &&
  error.facts.status >= 300 &&
  error.facts.status < 500

/**
 * A URL cannot hold a lone surrogate. After the replacement, the CDN reports that it does not know the
 * parameter.
 */
const encodeParam = (param: string) => encodeURIComponent(param.toWellFormed())

function uploadUrlOf({ cdnUrl, uploadParam, filekey }: CdnUpload): string {
  if (uploadParam === undefined) throw new ILinkError('malformed', 'CDN upload: no upload address')
  const query = `encrypted_query_param=${encodeParam(uploadParam)}&filekey=${encodeParam(filekey)}`
  return joinUrl(cdnUrl, `upload?${query}`)
}

function downloadUrlOf({ info }: MediaReference, cdnUrl: string): URL {
  const full = info.full_url
  if (full && /^https?:/i.test(full) && URL.canParse(full)) return new URL(full)
  if (info.encrypt_query_param) {
    const query = `encrypted_query_param=${encodeParam(info.encrypt_query_param)}`
    return new URL(joinUrl(cdnUrl, `download?${query}`))
  }
  throw new SvcError('no_media', 'This item has no address to download from')
}

function keyOf({ info, kind }: MediaReference) {
  if (info.aes_key) return parseAesKey(info.aes_key)
  // Images without a key exist and are plain (protocol notes 4.1). For other kinds, a missing key is a
  // defect.
  if (kind === 'image') return undefined
  throw new SvcError('upstream_error', 'This item came without its key', {
    hint: 'Ask the user to send it again.',
  })
}

/** Returns the size where it is certain: of plain media, or when upstream's size fits the ciphertext. */
function plainSizeOf(media: MediaReference, cipherSize: number | undefined, encrypted: boolean) {
  if (!encrypted) return cipherSize
  return media.size !== undefined && paddedSizeOf(media.size) === cipherSize ? media.size : undefined
}

async function readCdnError(what: string, response: Response): Promise<ILinkError> {
  const errmsg = upstreamTextOf(response.headers.get('x-error-message'))
  await response.body?.cancel().catch(() => {})
  const lacking = response.status === 200 ? ' without its download parameter' : ''
  const detail = `CDN ${what}: HTTP ${response.status}${lacking}${errmsg ? `: ${errmsg}` : ''}`
  return new ILinkError('http', detail, { status: response.status, errmsg })
}

/** Maps a failed download to an SvcError. */
function downloadErrorOf(error: unknown): unknown {
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
  // The guard's message is about a URL from a caller, but this one came from WeChat.
  if (error instanceof SvcError && error.code === 'invalid_arguments') {
    return new SvcError('upstream_error', 'The media cannot be fetched from where WeChat says it is', {
      cause: error,
    })
  }
  return error
}
