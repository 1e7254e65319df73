/**
 * The modes and models of a session of the Agent Client Protocol, and which mode asks before the agent acts. An agent
 * offers them as config options, or by `modes` and `models`; it names and describes them as it likes.
 */

import { badArgument } from '../../model/error.ts'
import type { Choice, Offer } from '../backend.ts'
import type { WantedMode } from '../config.ts'
import { toOneLine } from '../question-text.ts'

/** Modes or models that an agent offers, and how to set one. */
export interface OfferedChoices extends Offer {
  current: string | undefined
  /** The config option that sets it; absent: `session/set_mode` or `session/set_model` does. */
  readonly option?: string
}

/** What `session/new` and its like answer. Nothing of it is certain. */
interface SessionAnswer {
  readonly configOptions?:
    | readonly {
        id: string
        category?: string | null
        currentValue?: unknown
        options?: readonly unknown[]
      }[]
    | null
}

/** Reads the modes or the models that an agent offers for a session: as a config option, or in the older form. */
export function readOffer(answer: unknown, kind: 'mode' | 'model'): OfferedChoices {
  const { configOptions, [`${kind}s`]: older } = Object(answer) as SessionAnswer & Record<string, unknown>
  const option = configOptions?.find(
    ({ category, id, options }) => (category ?? id) === kind && Array.isArray(options),
  )
  if (option) {
    // Options may be in groups.
    const values = option.options!.flatMap(one => (Object(one) as { options?: unknown[] }).options ?? [one])
    return { choices: values.map(toChoice), current: String(option.currentValue), option: option.id }
  }
  const name = `${kind[0]?.toUpperCase()}${kind.slice(1)}`
  const { [`available${name}s`]: available, [`current${name}Id`]: current } = Object(older)
  if (!Array.isArray(available) || available.length === 0) return { choices: [], current: undefined }
  return { choices: available.map(toChoice), current: String(current) }
}

/** Reads a mode, a model or a command. */
export function toChoice(one: unknown): Choice {
  const { description, id, modelId, name, value } = Object(one) as Record<string, unknown>
  const key = String(id ?? modelId ?? value ?? name)
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
export function chooseMode({ choices: modes, current }: Offer, wanted: WantedMode): Choice | undefined {
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
export const isAsking = ({ description, id }: Choice): boolean =>
  description === ''
    ? id === 'default' || id === 'manual'
    : asks.test(description) && !allows.test(description)

/** Describes the mode that runs, for people, and names the others. */
export function describeMode({ choices: modes, current: id }: Offer, wanted: WantedMode): string {
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
