/** Questions of callers to people on WeChat, in their public form. */
import { type Static, Type } from '@sinclair/typebox'
import type { QuestionOption } from './agent.ts'
import { integer, oneOf, optional, text } from './shapes.ts'
import { readAnswer } from './typed-answer.ts'

export const UserQuestion = Type.Object(
  {
    id: integer('Id of the question.'),
    status: oneOf(
      ['waiting', 'open', 'answered', 'unanswered', 'cancelled'],
      'waiting: not sent yet, since the answer window is closed or a person has to approve it. open: the person can answer. unanswered: its time is over, or it could not be sent.',
    ),
    session: text('Name of the session.'),
    user_id: text('The person who is asked.'),
    text: text('The question.'),
    choices: Type.Array(Type.String(), { description: 'What the person can choose.' }),
    choice: optional.text('What the person chose.'),
    asked_at: integer('Unix milliseconds.'),
    sent_at: optional.integer('When it was sent. The time to answer begins then.'),
    expires_at: optional.integer('While it is open: when its time is over.'),
    answered_at: optional.integer('When the answer was noticed.'),
  },
  { description: 'A question to a person on WeChat.' },
)
export type UserQuestion = Static<typeof UserQuestion>

export interface AskRequest {
  to: string
  text: string
  choices: readonly string[]
  session?: string | undefined
  /** Time to answer, in seconds. */
  timeout: number
  when_closed?: 'fail' | 'queue'
  idempotency_key?: string | undefined
  grants?: boolean | undefined
}

/**
 * Whether a message answers a question. later: that is known when nothing else came for a moment. open: it does not, but a
 * question of its chat is open. over: it has the code of a question that is over.
 */
export type TakenAsAnswer = 'taken' | 'later' | 'open' | 'over' | 'no'

/** Whether a question was answered or ended. */
export const isOver = ({ answer }: { readonly answer?: string }): boolean => answer !== undefined

/** Whether a choice is a yes or a no, so that other words for it count too. */
export function kindOfChoice(name: string): QuestionOption['kind'] {
  const said = readAnswer(name, () => false)
  if (said === undefined || said.isUnclear || said.number !== undefined) return 'other'
  return said.word === 'yes' ? 'allow_once' : said.word === 'no' ? 'reject_once' : 'other'
}
