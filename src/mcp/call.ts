/**
 * A `tools/call` request as a `Call`: its progress, its questions to the person, its end, and its delivery.
 */

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
import { escapeControls } from '../platform/escape-controls.ts'
import { findSystemUser } from '../platform/process.ts'
import { RoomPart } from '../platform/runtime.ts'
import { maxWaitOf } from '../server/behind-proxy.ts'
import { callerAddressOf, requestIdOf } from '../server/caller.ts'
import { InterfaceCall } from '../server/http-call.ts'
import { countedBy } from '../server/open-calls.ts'
import { readsStream } from './accept.ts'
import type { McpContext } from './context.ts'
import type { QuestionTickets } from './questions.ts'

/** Maximum length of the description of a progress step, in characters. */
const maxStepLength = 160
/** How long svc waits for a person's answer to a question, in milliseconds. */
const questionTimeoutMs = 10 * 60_000

/**
 * Result of a form: the fields that the person filled in, `declined`, or the reason why there is no answer.
 */
type Answer = Readonly<Record<string, unknown>> | 'declined' | Unanswered

export class McpCall extends InterfaceCall {
  readonly progress?: (step: Progress) => void
  readonly ask?: (question: Question) => Promise<string | undefined>
  readonly findAnswer?: (field: string) => string | undefined
  startFitCheck?: Call['startFitCheck']
  unanswered?: Unanswered
  /**
   * Asks the person with a form. Absent if the client cannot ask.
   *
   * @param about the arguments that the question is about; an answer is valid only for exactly these
   * @throws SvcError `forbidden` if the answer belongs to another question
   */
  readonly elicit?: (field: string, form: ElicitRequestFormParams, about?: unknown) => Promise<Answer>
  readonly #ctx: ServerContext
  readonly #ticker: ProgressReporter | undefined
  /**
   * Questions that are asked by a result (modern era). `answers` are those that the client sent with this request, by
   * field; each is removed when it is used.
   */
  readonly #byResult: {
    readonly answers: Record<string, unknown>
    readonly tickets: QuestionTickets
    required?: { inputRequests: InputRequests; requestState?: string }
  }

  /**
   * @param declared capabilities that a legacy client declared once; a modern client declares them with
   *   each request
   */
  constructor(
    ctx: ServerContext,
    context: McpContext,
    clock: Clock,
    declared: ClientCapabilities | undefined,
  ) {
    const { by, local, era, calls } = context
    super(ctx.mcpReq, { by, shutdown: calls.waiting }, local)
    this.#ctx = ctx
    this.#byResult = { answers: { ...ctx.mcpReq.inputResponses }, tickets: calls.questions }
    const token = ctx.mcpReq._meta?.progressToken
    if (token !== undefined) {
      const notify = (notification: Notification) => ctx.mcpReq.notify(notification)
      const ticker = new ProgressReporter({ clock, token, notify })
      this.#ticker = ticker
      // The description may contain a file name that a WeChat user chose, so control characters are escaped.
      this.progress = step =>
        ticker.step({ ...step, what: escapeControls(step.what.slice(0, maxStepLength)) })
    }
    const envelope: { [CLIENT_CAPABILITIES_META_KEY]?: ClientCapabilities } = ctx.mcpReq.envelope ?? {}
    const { elicitation } = envelope[CLIENT_CAPABILITIES_META_KEY] ?? declared ?? {}
    // A client that names no kind of elicitation supports forms: they were the only kind in the first
    // revision.
    const canAsk = era === 'modern' || readsStream(ctx.http?.req)
    if (canAsk && elicitation && (elicitation.form !== undefined || elicitation.url === undefined)) {
      this.elicit = (field, form, about) =>
        era === 'modern' ? this.#askByResult(field, form, about) : this.#askDuringCall(form)
      this.ask = question => this.#ask(question)
      this.findAnswer = field => this.#takeAcceptedText(field)
    }
  }

  get address(): string | undefined {
    const request = this.#ctx.http?.req
    return request ? callerAddressOf(request) : `stdio:${findSystemUser()}`
  }

  get requestId(): string | undefined {
    const request = this.#ctx.http?.req
    return request && requestIdOf(request)
  }

  get longestWait(): number | undefined {
    const request = this.#ctx.http?.req
    return request && maxWaitOf(request)
  }

  /** Whether the client cancelled the request or is gone, so that an answer reaches nobody. */
  get isCancelled(): boolean {
    return this.#ctx.mcpReq.signal.aborted
  }

  /** Starts to report every few seconds that the call still runs, if the client asked for progress. */
  startTicking(what: string, seconds?: number): void {
    void this.#ticker?.start(what, seconds)
  }

  /** Ends the call: stops progress reports and waits. */
  override end(): void {
    this.#ticker?.stop()
    super.end()
  }

  /**
   * The question that is returned in place of a result (modern era). The client calls again with the person's
   * answer.
   */
  get question(): InputRequiredResult | undefined {
    const { required } = this.#byResult
    return required && inputRequired(required)
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
   * Legacy era: asks the client while the call runs. The SDK's shim for this era (2.4.0) does not fit. It
   * runs the tool again with the answer, so progress starts again. It turns a failed question into an error
   * of its own, but `send` must then wait for an approval elsewhere. It does not end when the service stops.
   */
  async #askDuringCall(form: ElicitRequestFormParams): Promise<Answer> {
    const { id: relatedRequestId, elicitInput } = this.#ctx.mcpReq
    // `relatedRequestId` sends the question on the stream of this call's answer. The SDK's default is the
    // stream of GET, which a client need not open.
    const options = { signal: this.signal, timeout: questionTimeoutMs, relatedRequestId }
    // The promise rejects if the client does not want to ask, or is gone.
    return elicitInput(form, options).then(answerOf, () => 'nobody')
  }

  /**
   * Modern era: this call returns the question, and the client calls again with the answer. Each answer is
   * used once. The first call ends here with an error that nobody sees. If `about` is given, the client must
   * also send back the ticket of the question.
   */
  async #askByResult(field: string, form: ElicitRequestFormParams, about: unknown): Promise<Answer> {
    const { answers, tickets } = this.#byResult
    if (Object.hasOwn(answers, field)) {
      const answer = this.#takeAnswer(field)
      if (about === undefined || tickets.useTicket(this.#ctx.mcpReq.requestState<string>(), about))
        return answer
      throw new SvcError(
        'forbidden',
        'The answer does not belong to a question about this call, or it came too late',
        { hint: 'Call again without an answer: the person is then asked again.' },
      )
    }
    this.#byResult.required = {
      inputRequests: { [field]: inputRequired.elicit(form) },
      ...(about !== undefined && { requestState: tickets.createTicket(about, countedBy(this.by)) }),
    }
    throw badArgument(field, 'the person has to answer first')
  }

  /** Returns the text of an accepted answer, and removes it. A declined answer stays for `#takeAnswer`. */
  #takeAcceptedText(field: string): string | undefined {
    const { answers } = this.#byResult
    const content = acceptedContent(answers, field)
    if (content) delete answers[field]
    return content && textOf(content[field])
  }

  /**
   * Returns the answer that the client sent, and removes it, so that it does not answer a second question.
   */
  #takeAnswer(field: string): Answer {
    const { answers } = this.#byResult
    const response = inputResponse(answers, field)
    delete answers[field]
    return response.kind === 'elicit' ? answerOf(response) : 'nobody'
  }
}

const answerOf = ({ action, content }: { action: string; content?: Record<string, unknown> }): Answer =>
  action === 'accept' ? (content ?? {}) : action === 'decline' ? 'declined' : 'cancelled'

const textOf = (value: unknown) =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : undefined

/** Interval between signs of life, in milliseconds. Some clients give up after a minute without one. */
const tickMs = 3000
/** Shortest interval between two reports of bytes, in milliseconds. */
const stepMs = 250

/** Sends progress notifications: bytes if they are counted, else a sign of life every few seconds. */
interface ReporterPorts {
  clock: Clock
  token: ProgressToken
  notify(notification: Notification): Promise<void>
}

class ProgressReporter extends RoomPart<ReporterPorts> {
  readonly #since = this.ports.clock.monotonic()
  /** Aborts when signs of life must stop. */
  readonly #ticksStopped = new AbortController()
  /** The current step, and the total progress of all steps before it. */
  #step = { what: '', done: 0, earlier: 0 }
  #reported = 0
  #reportedAt = Number.NEGATIVE_INFINITY
  #isOver = false

  /** Sends signs of life, in seconds of `total`, until bytes are counted or the call ends. */
  async start(what: string, total?: number): Promise<void> {
    const { signal } = this.#ticksStopped
    for (;;) {
      await this.ports.clock.sleep(tickMs, signal)
      if (signal.aborted) return
      this.#report(Math.round((this.ports.clock.monotonic() - this.#since) / 1000), what, total)
    }
  }

  step({ what, done, total }: Progress): void {
    this.#ticksStopped.abort()
    // Progress must never decrease, so the next file continues from the last reported value.
    const isNext = what !== this.#step.what || done < this.#step.done
    const earlier = isNext ? this.#reported : this.#step.earlier
    this.#step = { what, done, earlier }
    const complete = total !== undefined && done >= total
    const now = this.ports.clock.monotonic()
    if (!complete && now - this.#reportedAt < stepMs) return
    this.#reportedAt = now
    this.#report(earlier + done, what, total === undefined ? undefined : earlier + total)
  }

  stop(): void {
    this.#isOver = true
    this.#ticksStopped.abort()
  }

  #report(progress: number, message: string, total?: number): void {
    if (this.#isOver || progress <= this.#reported) return
    this.#reported = progress
    const params = { progressToken: this.ports.token, progress, message, total }
    // The notification fails if the client is gone. The transport notices that by itself.
    this.ports.notify({ method: 'notifications/progress', params }).catch(() => {})
  }
}
