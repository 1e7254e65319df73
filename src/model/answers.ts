/** The answers that a message of a person allows are one budget: who may take one, and what is kept for whom. */

/** agent: more than the result that a person waits for. topic: notices nobody asked for. */
export type AnswerUse = 'person' | 'agent' | 'question' | 'topic'

/** How many answers each leaves to others. The last two are for the result of an agent, and for its question. */
const kept: Readonly<Record<AnswerUse, number>> = { person: 0, agent: 1, topic: 2, question: 3 }

export interface AnswerBudget {
  /** Answers left until the person writes again. */
  readonly remaining: number
  /** Answers that it takes. Default: 1. */
  readonly takes?: number
  /** Topics: whether it is of the priority high or max. The others leave one more to these. */
  readonly isUrgent?: boolean
  /** Topics: how many they took since the person wrote, and how many they may take. */
  readonly used?: number
  readonly most?: number
}

/** Returns how many answers this use leaves to others. */
export const keptAnswers = (use: AnswerUse, isUrgent = true): number =>
  kept[use] + Number(use === 'topic' && !isUrgent)

/** Whether this may take answers. */
export const mayUse = (
  use: AnswerUse,
  { isUrgent, most = Number.POSITIVE_INFINITY, remaining, takes = 1, used = 0 }: AnswerBudget,
): boolean => remaining - takes >= keptAnswers(use, isUrgent) && used + takes <= most
