/**
 * Calls of send that bear an `idempotency_key`: of several with one key and one content only the first sends anything,
 * and its result answers all.
 */
import { createHash } from 'node:crypto'
import { sentAs } from '../ilink/encode.ts'
import { SvcError } from '../model/error.ts'
import type { MediaContent, MediaKind, SendPart, SendResult, SentStatus } from '../model/message.ts'
import { rightToAnswer } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Contexts } from '../state/contexts.ts'
import type { KeyedCall, Store } from '../store/store.ts'
import type { SendRequest } from './face.ts'
import { stopped } from './hand-over.ts'

export interface KeyedCallPorts {
  store: Store
  contexts: Contexts
  clock: Clock
  log: Log
}

/** What a call set out to send; kept with its key. */
interface Plan {
  session: string
  kinds: ('text' | MediaKind)[]
}

type Died = Extract<KeyedCall, { state: 'died' }>

/** A first call of this process that is under way. It is the work of all who wait for it, and ends when the last one leaves. */
interface Shared {
  content: string
  result: Promise<SendResult>
  /** Who waits. */
  callers: number
  /** Aborts when nobody does. */
  readonly left: AbortController
}

/** The first call is waited for as long as a send may wait for its turn. */
const patienceMs = 30_000
const lookEveryMs = 100
/** When a first call that runs elsewhere may be over. */
const retryAfterS = 5

export class KeyedCalls {
  readonly #ports: KeyedCallPorts
  readonly #running = new Map<string, Shared>()

  constructor(ports: KeyedCallPorts) {
    this.#ports = ports
  }

  /**
   * The result of the first call with this key; `run` is called when this is it, with the signal that its work is to heed.
   *
   * @throws SvcError `idempotency_conflict` for other content, `rate_limited` with `retry_after` when the first call runs in
   *   another process and takes long; what `run` throws, and then the key is free again, since nothing was sent
   */
  async once(
    request: SendRequest,
    signal: AbortSignal,
    run: (signal: AbortSignal) => Promise<SendResult>,
  ): Promise<SendResult> {
    const key = request.idempotency_key ?? ''
    const content = contentOf(request)
    for (;;) {
      const shared = this.#running.get(key) ?? this.#begin(request.to, key, content, run)
      if (shared.content !== content) throw conflict()
      try {
        return await joined(shared, signal)
      } catch (error) {
        // All who waited had left before anything was sent, whatever it broke on: now this is the first.
        if (signal.aborted || !shared.left.signal.aborted) throw error
      }
    }
  }

  #begin(
    to: string,
    key: string,
    content: string,
    run: (signal: AbortSignal) => Promise<SendResult>,
  ): Shared {
    const left = new AbortController()
    const over = () => this.#running.delete(key)
    const result = this.#first(to, key, content, left.signal, () => run(left.signal))
    result.then(over, over)
    const shared: Shared = { content, result, callers: 0, left }
    this.#running.set(key, shared)
    return shared
  }

  /** Notes what a call is going to send, so that its fate can be told if it dies. */
  plan(key: string, session: string, pieces: readonly { kind: Plan['kinds'][number] }[]): void {
    const plan: Plan = { session, kinds: pieces.map(piece => piece.kind) }
    this.#ports.store.keys(keys => keys.plan(key, plan))
  }

  async #first(
    to: string,
    key: string,
    content: string,
    signal: AbortSignal,
    run: () => Promise<SendResult>,
  ): Promise<SendResult> {
    const { clock, log, store } = this.#ports
    const deadline = clock.monotonic() + patienceMs
    for (;;) {
      const call = store.keys(keys => keys.begin(key, content))
      if (call.state === 'other') throw conflict()
      if (call.state === 'ended') return call.result as SendResult
      if (call.state === 'died') return this.#fate(to, key, call)
      if (call.state === 'ours') break
      if (clock.monotonic() >= deadline) {
        throw new SvcError(
          'rate_limited',
          'the first call with this idempotency_key still runs in another process',
          {
            retryAfter: retryAfterS,
            hint: 'Call again with the same key: it answers with the result of the first call and sends nothing.',
          },
        )
      }
      await clock.sleep(lookEveryMs, signal)
      if (signal.aborted) throw stopped(signal)
    }
    let result: SendResult
    try {
      result = await run()
    } catch (error) {
      // Thrown is what certainly sent nothing.
      try {
        store.keys(keys => keys.forget(key))
      } catch (trouble) {
        log.error('idempotency key of a failed send not freed', { error: trouble })
      }
      throw error
    }
    try {
      store.keys(keys => keys.end(key, result))
    } catch (error) {
      // The log has its messages: a later call is answered from there.
      log.error('result of a send with an idempotency key not stored', { error })
    }
    return result
  }

  /** What the log tells of a call whose process died. */
  #fate(to: string, key: string, { plan, messages, outbox }: Died): SendResult {
    const { contexts, log, store } = this.#ports
    const { session, kinds } = (plan ?? { session: '', kinds: [] }) as Plan
    const parts = kinds.map((kind, nth): SendPart => {
      const message = messages[nth]
      const status: SentStatus = message?.status ?? (outbox === undefined ? 'refused' : 'queued')
      return {
        kind,
        sent_as: kind === 'text' ? 'text' : sentAs(kind),
        status: status === 'refused' && outbox !== undefined ? 'queued' : status,
        ...(message?.message_id !== undefined && { message_id: message.message_id }),
        ...(status === 'unknown' && { error: interrupted }),
        ...(!message && outbox === undefined && { error: notTried }),
      }
    })
    const went = parts.filter(({ status }) => status === 'accepted' || status === 'suspect')
    const doubtful = parts.some(({ status }) => status === 'unknown')
    const status =
      outbox !== undefined
        ? 'queued'
        : doubtful || went.length === 0
          ? 'unknown'
          : went.length < parts.length
            ? 'partial'
            : 'accepted'
    const context = contexts.known(session).get(to)
    const lastId = went.at(-1)?.message_id
    const result: SendResult = {
      success: status === 'accepted',
      status,
      ...(lastId !== undefined && { message_id: lastId }),
      ...(went.some(part => part.status === 'suspect') && { suspect: true }),
      session,
      parts,
      ...rightToAnswer(context),
      ...(outbox !== undefined && { outbox_id: String(outbox) }),
    }
    log.warn('a send with an idempotency key had been interrupted', { status })
    store.keys(keys => keys.end(key, result))
    return result
  }
}

const conflict = () =>
  new SvcError(
    'idempotency_conflict',
    'this idempotency_key was used for another message within the last 24 hours',
  )

const interrupted = {
  code: 'upstream_error',
  detail: 'svc was stopped while it was sent; it may have arrived',
  hint: 'Do not send it again before you know: ask the user, or look at the phone.',
}
const notTried = { code: 'shutting_down', detail: 'svc was stopped before it was sent' }

/** Equal for requests that mean the same: media by what the caller names, so that a file that is gone by now counts. */
function contentOf({ to, text, media, session, when_closed }: SendRequest): string {
  const named = media.map(({ kind, file_name, path, url, data, upload_id }: MediaContent) => [
    ...[kind, file_name, path, url, upload_id],
    data === undefined ? undefined : sha256(data),
  ])
  return sha256(JSON.stringify([to, text ?? '', named, session, when_closed ?? 'fail']))
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('base64url')

/** The result of shared work, for one more caller. Who leaves while others wait hears so at once. */
async function joined(shared: Shared, signal: AbortSignal): Promise<SendResult> {
  const gone = Promise.withResolvers<never>()
  const leave = () => {
    shared.callers -= 1
    if (shared.callers === 0) shared.left.abort(signal.reason)
    // Those who leave in one moment, as when the service stops, all hear what became of it: so does the last one.
    queueMicrotask(() => {
      if (shared.callers > 0) gone.reject(left(signal))
    })
  }
  shared.callers += 1
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([shared.result, gone.promise])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

const left = ({ reason }: AbortSignal): SvcError =>
  reason instanceof SvcError
    ? reason
    : new SvcError('shutting_down', 'the caller left; another call with the same idempotency_key goes on', {
        hint: 'Call again with the same key: it answers with the result of that call.',
      })
