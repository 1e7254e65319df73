/** Operations for questions to people on WeChat: ask one, wait for the choice, take it back. */
import { type Static, Type } from '@sinclair/typebox'
import { waitOf } from '../model/call.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { UserQuestion } from '../model/question.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { plainOf } from '../model/typed-answer.ts'
import { exampleUser } from './example-values.ts'
import { defineOperation, defineTool } from './operation.ts'
import { RowId } from './schema.ts'
import { SendInput, send } from './send.ts'

const mostChoices = 10
/** Bounds of the time to answer. */
export const shortestSeconds = 10
export const longestSeconds = 86_400
/** Longest wait of one call. */
const longestWaitSeconds = 300

const AskInput = closed({
  to: SendInput.properties.to,
  text: bounded(4000, 'The question.', { examples: ['Deploy to production?'] }),
  choices: Type.Array(bounded(100, 'A choice.'), {
    minItems: 2,
    maxItems: mostChoices,
    description: 'What the person can choose. Each has a number, and a code that is right in any case.',
    examples: [['yes', 'no']],
  }),
  timeout: optional.between(
    shortestSeconds,
    longestSeconds,
    'Time to answer, in seconds, from when the question was sent.',
    {
      default: 600,
    },
  ),
  session: SendInput.properties.session,
  when_closed: optional.oneOf(
    ['fail', 'queue'],
    'If the answer window is closed. fail: an error. queue: it is asked when the person writes, unless the timeout is over by then.',
    { default: 'fail' },
  ),
  idempotency_key: optional.bounded(
    200,
    'A later call of the same caller with this key gets the same question, also after a crash.',
    {
      examples: ['deploy-4711'],
    },
  ),
  grants: optional.flag(
    'The choice allows a program to do something. Then a choice without the code counts only if the person is the one who scanned the account, and no guest.',
  ),
})

const errors = [...(send.errors ?? []), 'idempotency_conflict'] as const

const exampleOpen = {
  id: 7,
  status: 'open' as const,
  session: 'mum',
  user_id: exampleUser,
  text: 'Deploy to production?',
  choices: ['yes', 'no'],
  asked_at: 1767225600000,
  sent_at: 1767225601000,
  expires_at: 1767226201000,
}
const { expires_at: _, ...over } = exampleOpen
const exampleAnswered = { ...over, status: 'answered' as const, choice: 'yes', answered_at: 1767225660000 }
const exampleInput = { to: exampleUser, text: 'Deploy to production?', choices: ['yes', 'no'] }

const description =
  'Asks a person on WeChat and offers choices. The person answers by a plain choice as the next message, its number, or the code with the number. The answer is no prompt for an agent. It uses one answer, and is never sent again.'

const One = { id: RowId('Id of the question.') }

/** A key that drafts may ask, too: a person approves its question. */
const furtherRights = () => [['send', 'draft']] as const

/** Line ends, other controls, and marks that turn the direction of the text after them: a choice would look like another. */
const isHidden = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

/** Choices differ in what a person can tell apart and type. */
function check({ choices }: Static<typeof AskInput>): void {
  const seen = choices.map(name => plainOf(name).trim())
  if (seen.includes('') || choices.some(name => isHidden.test(name)))
    throw badArgument('choices', 'expected choices of one line each, without control characters')
  if (new Set(seen).size < choices.length) throw badArgument('choices', 'expected choices that differ')
}

/** Asks, and waits until there is a choice or the time is over. Not one of the nine tools: `--tools ask` offers it. */
export const ask = defineTool({
  name: 'ask',
  title: 'Ask a person on WeChat, and wait for the answer',
  effect: 'write',
  right: 'ask',
  subject: ['to', 'session'],
  description: `${description} Returns what the person chose. Without an answer in time it fails with no_answer: that is never a yes.`,
  input: AskInput,
  output: UserQuestion,
  errors: [...errors, 'no_answer'],
  examples: [{ summary: 'Yes or no', input: exampleInput, output: exampleAnswered }],
  cli: {
    path: ['ask'],
    positionals: ['to', 'text'],
    stdin: 'text',
    short: { session: 's' },
    untyped: ['timeout'],
    help: { choices: 'What the person can choose, separated by commas.' },
    about: 'Prints the choice. Ctrl-C takes the question back.',
    examples: [['svc ask Mum "Deploy to production?" --choices yes,no --timeout 10m', 'Prints yes or no']],
  },
  check,
  furtherRights,
  async run({ asks }, { timeout = 600, ...request }, call) {
    call.beginWait?.()
    const question = await asks.ask({ ...request, timeout }, call)
    // It may wait for a person's approval, or for the window, before its time begins.
    const ended = await asks.wait(question.id, Number.POSITIVE_INFINITY, call)
    if (ended.status === 'answered') return ended
    if (call.signal.aborted) {
      await asks.cancel(question.id, call.by)
      call.signal.throwIfAborted()
    }
    throw new SvcError(
      'no_answer',
      ended.status === 'cancelled' ? 'the question was taken back' : 'nobody answered in time',
    )
  },
})

export const addQuestion = defineOperation({
  name: 'add_question',
  title: 'Ask a person on WeChat',
  effect: 'write',
  right: 'ask',
  subject: ['to', 'session'],
  description: `${description} Returns at once: get_question waits for the choice.`,
  input: AskInput,
  output: UserQuestion,
  errors,
  examples: [{ summary: 'Yes or no', input: exampleInput, output: exampleOpen }],
  rest: { route: 'POST /questions', tag: 'messages' },
  positionals: ['to', 'text'],
  check,
  furtherRights,
  run: ({ asks }, { timeout = 600, ...request }, call) => asks.ask({ ...request, timeout }, call),
})

export const getQuestion = defineOperation({
  name: 'get_question',
  title: 'Get a question, and wait for the choice',
  effect: 'read',
  right: 'ask',
  description:
    'Returns a question that this caller asked. With `wait` it returns when the person has chosen or the question is over, at the latest after that time. A question without an answer is `unanswered`, which is no error. Questions are kept for 30 days.',
  input: closed({
    ...One,
    wait: optional.between(0, longestWaitSeconds, 'Seconds to wait for the choice.', { default: 0 }),
  }),
  output: UserQuestion,
  errors: ['not_found'],
  examples: [{ summary: 'The person chose', input: { id: 7, wait: 60 }, output: exampleAnswered }],
  rest: { route: 'GET /questions/{id}', tag: 'messages' },
  run: ({ asks }, { id, wait = 0 }, call) => asks.wait(id, waitOf(call, wait) * 1000, call),
})

export const cancelQuestion = defineOperation({
  name: 'cancel_question',
  title: 'Take back a question',
  effect: 'write',
  right: 'ask',
  description:
    'Ends a question of this caller. A later answer counts for nothing. If it still waits to be sent, it is not sent. One that is over stays as it is.',
  input: closed(One),
  output: UserQuestion,
  errors: ['not_found'],
  examples: [{ summary: 'Take it back', input: { id: 7 }, output: { ...over, status: 'cancelled' } }],
  rest: { route: 'DELETE /questions/{id}', tag: 'messages' },
  run: ({ asks }, { id }, { by }) => asks.cancel(id, by),
})
