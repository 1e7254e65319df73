/** Programs that receive: each notes what it was handed, by which process and when. */
import type { Json } from '../../support/service.ts'
import { lived } from './lived.ts'
import type { Chance } from './random.ts'

/** Whoever answers now at that place of the fleet; undefined while it starts. */
export type Door = () => { pid: number; call: Call } | undefined
type Call = (tool: string, input?: unknown, signal?: AbortSignal) => Promise<{ status: number; body: Json }>

/** One message in one answer. */
interface Handed {
  rowId: number
  /** The process that answered. */
  pid: number
  /** By `lived`. */
  at: number
  redelivered: boolean
}

/** What one consumer was handed, by text: texts are unique in a storm. */
export interface Received {
  readonly consumer: string
  readonly byText: Map<string, Handed[]>
  /** Answers of other kinds than 200, by code. */
  readonly refusals: Map<string, number>
  /** Calls whose connection broke: the process asked, when (by `lived`), and what fetch said. */
  readonly broken: { pid: number; at: number; error: string }[]
}

export const nothingReceived = (consumer: string): Received => ({
  consumer,
  byText: new Map(),
  refusals: new Map(),
  broken: [],
})

function note(received: Received, messages: Json[], pid: number): void {
  const at = lived()
  for (const { id, text, redelivered } of messages) {
    const handed = received.byText.get(text) ?? []
    received.byText.set(text, handed)
    handed.push({ rowId: id, pid, at, redelivered: redelivered === true })
  }
}

/**
 * Calls recv again and again until `stop`.
 *
 * @param input undefined: waits a moment and asks again
 */
async function readOn(
  received: Received,
  door: Door,
  stop: AbortSignal,
  input: () => object,
  seen: (messages: Json[]) => void = () => {},
): Promise<void> {
  while (!stop.aborted) {
    const at = door()
    if (!at) {
      await Bun.sleep(20)
      continue
    }
    try {
      const { status, body } = await at.call('recv', input(), stop)
      if (status === 200) {
        note(received, body, at.pid)
        seen(body)
        continue
      }
      received.refusals.set(body.code, (received.refusals.get(body.code) ?? 0) + 1)
    } catch (error) {
      if (!stop.aborted) received.broken.push({ pid: at.pid, at: lived(), error: String(error) })
    }
    await Bun.sleep(30)
  }
}

/** A consumer that reads at one place of the fleet; several may share one `received`. */
export const consume = (received: Received, door: Door, stop: AbortSignal, chance: Chance): Promise<void> =>
  readOn(received, door, stop, () => ({
    consumer: received.consumer,
    timeout: 2,
    limit: chance.between(1, 40),
  }))

/** A reader that keeps its own position and asks everywhere in turn. @returns the row ids in the order they came */
export async function readAfter(
  received: Received,
  doors: readonly Door[],
  stop: AbortSignal,
): Promise<number[]> {
  const ids: number[] = []
  let turn = 0
  const door: Door = () => doors[turn++ % doors.length]!()
  const input = () => ({ after: ids.at(-1) ?? 0, timeout: 1, limit: 50 })
  await readOn(received, door, stop, input, messages => {
    for (const { id } of messages) ids.push(id)
  })
  return ids
}
