/** One `tools/call` as a call: when it ends, what it tells and asks meanwhile, and whether its answer was written. */

import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type ElicitRequestFormParams,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  type Notification,
  type ProgressToken,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { Call, Progress, Question, Unanswered } from '../model/call.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import { seen } from '../platform/escape-controls.ts'
import { longestWait } from '../server/behind-proxy.ts'
import { DoorCall } from '../server/http-call.ts'
import type { McpContext } from './context.ts'
import type { Questions } from './questions.ts'

/** Characters of what is said of a step. */
const mostWhat = 160
/** Answers of people take their time. */
const answerWithinMs = 10 * 60_000

/** What a person said to a form, or that it was declined, or that there is no answer. */
type Answer = Readonly<Record<string, unknown>> | 'declined' | Unanswered

export class McpCall extends DoorCall {
  readonly progress?: (step: Progress) => void
  readonly ask?: (question: Question) => Promise<string | undefined>
  readonly answered?: (field: string) => string | undefined
  room?: Call['room']
  unanswered?: Unanswered
  /**
   * Asks with a form of one's own; absent where nobody can be asked.
   *
   * @param about what an answer is for, and for nothing else
   * @throws SvcError `forbidden` for an answer to another question
   */
  readonly elicit?: (field: string, form: ElicitRequestFormParams, about?: unknown) => Promise<Answer>
  readonly #ctx: ServerContext
  readonly #questions: Questions
  readonly #ticker: Ticker | undefined
  readonly #given: Record<string, unknown>
  #wanted: { inputRequests: InputRequests; requestState?: string } | undefined

  /** @param declared by a client of the legacy era, once; a modern one says what it can with each request */
  constructor(ctx: ServerContext, context: McpContext, declared: ClientCapabilities | undefined) {
    const { by, local, era, calls, gateway } = context
    super(ctx.mcpReq, { by, waiting: calls.waiting }, local)
    this.#ctx = ctx
    this.#questions = calls.questions
    this.#given = { ...ctx.mcpReq.inputResponses }
    const token = ctx.mcpReq._meta?.progressToken
    if (token !== undefined) {
      const ticker = new Ticker(gateway.clock, token, notification => ctx.mcpReq.notify(notification))
      this.#ticker = ticker
      // What it says may hold the name that a user gave to a file.
      this.progress = step => ticker.step({ ...step, what: seen(step.what.slice(0, mostWhat)) })
    }
    const envelope: { [CLIENT_CAPABILITIES_META_KEY]?: ClientCapabilities } = ctx.mcpReq.envelope ?? {}
    const { elicitation } = envelope[CLIENT_CAPABILITIES_META_KEY] ?? declared ?? {}
    // A client that names no kind means forms: there was no other kind at first.
    if (elicitation && (elicitation.form !== undefined || elicitation.url === undefined)) {
      this.elicit = (field, form, about) =>
        era === 'modern' ? this.#askByAnswering(field, form, about) : this.#askMeanwhile(form)
      this.ask = question => this.#ask(question)
      this.answered = field => this.#answered(field)
    }
  }

  get longestWait(): number | undefined {
    const request = this.#ctx.http?.req
    return request && longestWait(request)
  }

  /** The client took the request back, or is gone: an answer would reach nobody. */
  get cancelled(): boolean {
    return this.#ctx.mcpReq.signal.aborted
  }

  /** Says now and then that the call still works on it, for a client that wants to hear so. */
  tick(what: string, seconds?: number): void {
    void this.#ticker?.start(what, seconds)
  }

  /** The work is over: nothing more is told, nothing waits. */
  override end(): void {
    this.#ticker?.stop()
    super.end()
  }

  /** The question to answer with instead of a result; the client then calls again with the person's answer. */
  get question(): InputRequiredResult | undefined {
    return this.#wanted && inputRequired(this.#wanted)
  }

  async #ask({ text, field }: Question): Promise<string | undefined> {
    const answer = await this.elicit?.(field, {
      message: text,
      requestedSchema: {
        type: 'object',
        properties: { [field]: { type: 'string', title: field, minLength: 1, maxLength: 200 } },
        required: [field],
      },
    })
    return typeof answer === 'object' ? textOf(answer[field]) : undefined
  }

  /**
   * The legacy era: asks the client while the call goes on. The SDK's shim for this era (2.4.0) does not fit. It runs the tool
   * again with the answer, so that progress starts again. It answers a question that fails with an error of its own, where
   * `send` has to wait for a yes from elsewhere. It does not end with the service.
   */
  async #askMeanwhile(form: ElicitRequestFormParams): Promise<Answer> {
    const { id: relatedRequestId, elicitInput } = this.#ctx.mcpReq
    // In the answer to this very call; the SDK's usual way is the stream of GET, which a client need not open.
    const options = { signal: this.signal, timeout: answerWithinMs, relatedRequestId }
    // The client refused to ask, or is gone.
    return elicitInput(form, options).then(answerOf, () => 'nobody')
  }

  /**
   * The modern era: the question is the answer of this call, and the client calls again with what was said. Each answer
   * is used once; the work until here ends with an error that nobody sees. Where it matters what was asked, the client
   * brings our ticket back too.
   */
  async #askByAnswering(field: string, form: ElicitRequestFormParams, about: unknown): Promise<Answer> {
    if (Object.hasOwn(this.#given, field)) {
      const answer = this.#answer(field)
      if (about === undefined || this.#questions.take(this.#ctx.mcpReq.requestState<string>(), about))
        return answer
      throw new SvcError(
        'forbidden',
        'The answer is not to a question about this very call, or it came too late',
        {
          hint: 'Call again without an answer: the person is then asked about it.',
        },
      )
    }
    this.#wanted = {
      inputRequests: { [field]: inputRequired.elicit(form) },
      ...(about !== undefined && { requestState: this.#questions.ask(about) }),
    }
    throw badArgument(field, 'the person has to answer first')
  }

  /** Only what was said: a no is for the question itself, that it need not be asked again. */
  #answered(field: string): string | undefined {
    const said = acceptedContent(this.#given, field)
    if (said) delete this.#given[field]
    return said && textOf(said[field])
  }

  /** Each is used once: what a second question asks was not answered by the first. */
  #answer(field: string): Answer {
    const said = inputResponse(this.#given, field)
    delete this.#given[field]
    return said.kind === 'elicit' ? answerOf(said) : 'nobody'
  }
}

const answerOf = ({ action, content }: { action: string; content?: Record<string, unknown> }): Answer =>
  action === 'accept' ? (content ?? {}) : action === 'decline' ? 'declined' : 'cancelled'

const textOf = (value: unknown) =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined

/** Clients that give up after a minute without a word are kept by this. */
const tickMs = 3000
/** Bytes are told at most this often. */
const stepMs = 250

/** Progress notifications: bytes where they are counted, else a sign of life every few seconds. */
class Ticker {
  readonly #clock: Clock
  readonly #token: ProgressToken
  readonly #notify: (notification: Notification) => Promise<void>
  readonly #since: number
  /** Aborts when no more signs of life are wanted. */
  readonly #quiet = new AbortController()
  #what = ''
  /** What all steps before the present one came to. */
  #before = 0
  #done = 0
  #told = 0
  #toldAt = Number.NEGATIVE_INFINITY
  #over = false

  constructor(clock: Clock, token: ProgressToken, notify: (notification: Notification) => Promise<void>) {
    this.#clock = clock
    this.#since = clock.monotonic()
    this.#token = token
    this.#notify = notify
  }

  /** Signs of life from now on, in seconds of `total`, until bytes are counted or the call ends. */
  async start(what: string, total?: number): Promise<void> {
    const { signal } = this.#quiet
    for (;;) {
      await this.#clock.sleep(tickMs, signal)
      if (signal.aborted) return
      this.#tell(Math.round((this.#clock.monotonic() - this.#since) / 1000), what, total)
    }
  }

  step({ what, done, total }: Progress): void {
    this.#quiet.abort()
    if (what !== this.#what || done < this.#done) {
      // The next file counts on, since progress must never go back.
      this.#before = this.#told
      this.#what = what
    }
    this.#done = done
    const complete = total !== undefined && done >= total
    const now = this.#clock.monotonic()
    if (!complete && now - this.#toldAt < stepMs) return
    this.#toldAt = now
    this.#tell(this.#before + done, what, total === undefined ? undefined : this.#before + total)
  }

  stop(): void {
    this.#over = true
    this.#quiet.abort()
  }

  #tell(progress: number, message: string, total?: number): void {
    if (this.#over || progress <= this.#told) return
    this.#told = progress
    const params = { progressToken: this.#token, progress, message, total }
    // A client that is gone is found out by other means.
    this.#notify({ method: 'notifications/progress', params }).catch(() => {})
  }
}
