/** A call of mode `fail`: this process sends it now, or nobody does. */
import { textItem } from '../ilink/encode.ts'
import type { WireItem } from '../ilink/wire.ts'
import { SvcError } from '../model/error.ts'
import type { BotInfo } from '../model/session.ts'
import type { Begun, Entry, EntryPart } from '../storage/outbox.ts'
import type { DeliveryResult, Letter } from './delivery.ts'
import { type DeliveryAttempts, type SendPorts, type Started, settlementOf } from './delivery-attempt.ts'
import type { Caller } from './media-files.ts'
import type { Piece } from './plan.ts'
import { closedError, endReasonOf, notTried, stopped, takenOver, uploadError } from './problems.ts'

/** A call of mode `fail`, written down. */
export interface OwnEntry {
  entry: Entry
  bot: BotInfo
  pieces: readonly Piece[]
  /** Its first message, if that was begun already. */
  first?: { begun: Begun; letter: Letter }
  caller: Pick<Caller, 'signal' | 'progress'>
}

interface OwnTools {
  ports: SendPorts
  attempts: DeliveryAttempts
}

/** Sends an entry of mode `fail`, to its end. @returns it as it ended */
export async function sendOwn(own: OwnEntry, { ports, attempts }: OwnTools): Promise<Entry> {
  const { entry, bot, pieces, caller } = own
  const { session, user: to } = entry
  const { account } = ports.upstream
  const { media } = ports
  const { signal, progress } = caller
  const items: WireItem[] = []
  try {
    for (const piece of pieces) {
      if ('text' in piece) items.push(textItem(piece.text))
      else {
        const { file } = piece
        const upload = () => media.upload(account(bot), to, file, signal, progress)
        items.push(await attempts.upload(entry, bot, upload))
      }
    }
  } catch (error) {
    return refused(ports.store, entry, signal.aborted ? stopped(signal) : uploadError(error, to))
  }
  let last = entry
  for (const [nth, part] of entry.parts.entries()) {
    const message = { parts: [part.id], item: items[nth]! }
    const first = nth === 0 ? own.first : undefined
    const started: Started = first
      ? { go: 'begun', ...first }
      : await attempts.begin(entry, bot, message, signal)
    if (started.go === 'stopped') return refused(ports.store, entry, stopped(signal))
    if (started.go === 'gone') return refused(ports.store, entry, takenOver())
    if (started.go === 'no') {
      const texts = pieces.filter(({ kind }) => kind === 'text').length
      const why = closedError(started, { count: pieces.length, texts }, ports.upstream.sandboxed)
      return refused(ports.store, entry, why)
    }
    const result: DeliveryResult = signal.aborted
      ? { status: 'refused', spent: false, unseen: true, error: stopped(signal) }
      : await attempts.deliver(session, bot, started.letter, started.begun)
    const { status, error } = result
    const failed = status === 'refused' || status === 'unknown' ? error : undefined
    // What follows a failed part would arrive out of its order, and a refusal must not be hammered.
    const settled = await attempts.settle(
      started.begun,
      {
        ...settlementOf(result),
        ...(failed && { rest: endReasonOf(notTried(failed)) }),
      },
      { session, bot, at: started.letter.row.timestamp },
    )
    last = settled?.find(({ id }) => id === entry.id) ?? settledHere(last, nth, result)
    if (failed) return last
  }
  return last
}

/** What has not been sent of an entry never will be. @returns it; @throws `error` when that is all of it, or no SvcError */
async function refused(store: SendPorts['store'], entry: Entry, error: unknown): Promise<Entry> {
  const known = error instanceof SvcError ? error : new SvcError('internal', 'an unexpected error')
  const ended = await store.outbox.end(entry.id, endReasonOf(known))
  if (!(error instanceof SvcError) || !ended || ended.entry.parts.every(({ status }) => status === 'refused'))
    throw error
  return ended.entry
}

/** The entry where the disk did not take what became of its `nth` part. */
function settledHere(entry: Entry, nth: number, { status, message_id, error }: DeliveryResult): Entry {
  const parts = entry.parts.map((part, at): EntryPart => {
    if (at === nth) return { ...part, status, message_id, error: error && endReasonOf(error) }
    return at > nth && error ? { ...part, status: 'refused', error: endReasonOf(notTried(error)) } : part
  })
  return { ...entry, parts }
}
