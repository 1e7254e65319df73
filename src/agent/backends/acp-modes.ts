/**
 * The modes of a session of the Agent Client Protocol, and which of them asks before the agent acts. An agent offers modes
 * by `modes`, or as a config option; it names and describes them as it likes.
 */

import { badArgument } from '../../model/error.ts'
import type { WantedMode } from '../config.ts'
import { toOneLine } from '../question-text.ts'

interface Mode {
  readonly id: string
  readonly name: string
  readonly description: string
}

export interface OfferedModes {
  readonly modes: readonly Mode[]
  readonly current: string | undefined
  /** The config option that sets the mode; absent: `session/set_mode` does. */
  readonly option?: string
}

/** What `session/new` and its like answer. Nothing of it is certain. */
interface SessionAnswer {
  readonly modes?: {
    readonly currentModeId: string
    readonly availableModes: readonly { id: string; name: string; description?: string | null }[]
  } | null
  readonly configOptions?:
    | readonly {
        id: string
        category?: string | null
        currentValue?: unknown
        options?: readonly unknown[]
      }[]
    | null
}

/** Reads the modes that an agent offers for a session. */
export function readModes(answer: unknown): OfferedModes {
  const { configOptions, modes } = Object(answer) as SessionAnswer
  if (modes?.availableModes?.length)
    return { modes: modes.availableModes.map(toMode), current: modes.currentModeId }
  const option = configOptions?.find(({ category, options }) => category === 'mode' && Array.isArray(options))
  if (!option) return { modes: [], current: undefined }
  // Options may be in groups.
  const values = option.options!.flatMap(one => (Object(one) as { options?: unknown[] }).options ?? [one])
  return { modes: values.map(toMode), current: String(option.currentValue), option: option.id }
}

function toMode(one: unknown): Mode {
  const { description, id, name, value } = Object(one) as Record<string, unknown>
  const key = String(id ?? value)
  return {
    id: key,
    name: String(name ?? key),
    description: typeof description === 'string' ? description : '',
  }
}

/** What agents say of a mode in which they ask, and what makes that doubtful. */
const asks = /\b(asks?|asking|prompts?|approvals?|confirm(s|ation)?|permission)\b/i
const allows = /\bauto|\b(without|never|skip|bypass|no)\b|all tools|handles/i

/**
 * Returns the mode to set.
 *
 * @returns undefined for the one that the session has, also if none is known to ask
 * @throws SvcError for a name that the agent does not offer
 */
export function chooseMode({ current, modes }: OfferedModes, wanted: WantedMode): Mode | undefined {
  const now = modes.find(({ id }) => id === current)
  let chosen = now
  if (wanted === 'ask') {
    const asking = modes.filter(isAsking)
    chosen = now && isAsking(now) ? now : (asking.find(({ id }) => id === 'default') ?? asking[0] ?? now)
  } else if (wanted !== 'own') {
    const name = wanted.name.toLowerCase()
    chosen =
      modes.find(one => one.id.toLowerCase() === name) ?? modes.find(one => one.name.toLowerCase() === name)
    if (!chosen)
      throw badArgument(
        'mode',
        `the agent has no mode "${wanted.name}", but ${modes.map(({ id }) => toOneLine(id, 100)).join(', ') || 'none'}`,
      )
  }
  return chosen === now ? undefined : chosen
}

/** Whether a mode asks before the agent acts, as far as its description tells. */
const isAsking = ({ description, id }: Mode): boolean =>
  description === ''
    ? id === 'default' || id === 'manual'
    : asks.test(description) && !allows.test(description)

/** Describes the mode that runs, for people, and names the others. */
export function describeMode({ modes }: OfferedModes, id: string | undefined, wanted: WantedMode): string {
  const mode = modes.find(one => one.id === id)
  const isDoubtful = wanted === 'ask' && !(mode && isAsking(mode))
  const others = modes.filter(one => one !== mode).map(one => one.id)
  const text = [
    mode ? `mode ${mode.id}${mode.description && ` (${mode.description.replace(/\.$/, '')})`}` : 'no modes',
    ...(isDoubtful ? ['none is known to ask, so its own settings decide what it asks'] : []),
    ...(others.length > 0 ? [`others: ${others.join(', ')}`] : []),
  ]
  return toOneLine(text.join('; '), 400)
}
