/** A call of mode `fail`: this process sends it now, or nobody does. */
import { mediaItem, textItem } from '../ilink/encode.ts'
import type { WireItem } from '../ilink/wire.ts'
import { SvcError } from '../model/error.ts'
import type { BotInfo } from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Begun, Entry, EntryPart } from '../storage/outbox.ts'
import { type DeliveryResult, type Letter, letter } from './delivery.ts'
import { type DeliveryAttempts, type SendPorts, settlementOf } from './delivery-attempt.ts'
import type { Caller } from './media-files.ts'
import type { Piece } from './plan.ts'
import { closedError, notTried, reasonOf, stopped, takenOver, uploadError } from './problems.ts'

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
  runtime: Runtime
}

/** Sends an entry of mode `fail`, to its end. @returns it as it ended */
export async function sendOwn(own: OwnEntry, { ports, attempts, runtime }: OwnTools): Promise<Entry> {
  const { entry, bot, pieces, caller } = own
  const { session, user: to } = entry
  const { clock } = runtime
  const { account } = ports.upstream
  const { media, judge } = ports
  const { signal, progress } = caller
  const items: WireItem[] = []
  try {
    for (const piece of pieces) {
      if ('text' in piece) items.push(textItem(piece.text))
      else {
        const { file } = piece
        const upload = () => media.upload(account(bot), to, file, signal, progress)
        items.push(mediaItem(await judge.settled(session, bot, upload)))
      }
    }
  } catch (error) {
    return refused(ports.store, entry, signal.aborted ? stopped(signal) : uploadError(error, to))
  }
  let last = entry
  for (const [nth, part] of entry.parts.entries()) {
    let first = nth === 0 ? own.first : undefined
    while (!first) {
      if (signal.aborted) return refused(ports.store, entry, stopped(signal))
      const { token, ...terms } = await attempts.terms(session, to)
      const next = letter(to, items[nth]!, token, clock.now())
      const began = await ports.store.outbox.begin([part.id], bot.bot_id, terms, next.row)
      if (began.go === 'begun') first = { begun: began.begun, letter: next }
      else if (began.go === 'later') await clock.sleep(began.slot - clock.now(), signal)
      else if (began.go === 'gone') return refused(ports.store, entry, takenOver())
      else {
        const texts = pieces.filter(({ kind }) => kind === 'text').length
        return refused(
          ports.store,
          entry,
          closedError(began, { count: pieces.length, texts }, ports.upstream.sandboxed),
        )
      }
    }
    const result: DeliveryResult = signal.aborted
      ? { status: 'refused', spent: false, unseen: true, error: stopped(signal) }
      : await attempts.deliver(session, bot, first.letter, first.begun)
    const { status, error } = result
    const failed = status === 'refused' || status === 'unknown' ? error : undefined
    // What follows a failed part would arrive out of its order, and a refusal must not be hammered.
    const settled = await attempts.settle(first.begun, {
      ...settlementOf(result),
      ...(failed && { rest: reasonOf(notTried(failed)) }),
    })
    last = settled?.find(({ id }) => id === entry.id) ?? settledHere(last, nth, result)
    if (failed) return last
  }
  return last
}

/** What has not been sent of an entry never will be. @returns it; @throws `error` when that is all of it, or no SvcError */
async function refused(store: SendPorts['store'], entry: Entry, error: unknown): Promise<Entry> {
  const known = error instanceof SvcError ? error : new SvcError('internal', 'an unexpected error')
  const ended = await store.outbox.end(entry.id, reasonOf(known))
  if (!(error instanceof SvcError) || !ended || ended.entry.parts.every(({ status }) => status === 'refused'))
    throw error
  return ended.entry
}

/** The entry where the disk did not take what became of its `nth` part. */
function settledHere(entry: Entry, nth: number, { status, message_id, error }: DeliveryResult): Entry {
  const parts = entry.parts.map((part, at): EntryPart => {
    if (at === nth)
      return {
        ...{ ...part, status },
        ...(message_id !== undefined && { message_id }),
        ...(error && { error: reasonOf(error) }),
      }
    return at > nth && error ? { ...part, status: 'refused', error: reasonOf(notTried(error)) } : part
  })
  return { ...entry, parts }
}
