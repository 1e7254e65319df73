/** What a backend is: the way in which svc runs one turn of an agent program. */
import type { QuestionOption } from '../index.ts'

/** A file of a prompt, on this machine. */
export interface PromptFile {
  /** Absolute path. A voice message is a WAV file. */
  readonly path: string
  readonly name: string
  /** MIME type. */
  readonly type: string
  readonly kind: 'image' | 'voice' | 'file' | 'video'
  /** What was said, by WeChat or by the command of --transcribe. */
  readonly transcript?: string
}

/** What the agent is asked in a turn. */
export interface Prompt {
  /** The texts of the messages, and a line for each file. */
  readonly text: string
  readonly files: readonly PromptFile[]
}

/** What an agent asks permission for. */
export interface PermissionRequest {
  readonly text: string
  readonly options: readonly QuestionOption[]
  /** Aborts when the agent takes the request back. */
  readonly signal?: AbortSignal
}

/** One turn, as the backend sees it. */
export interface TurnContext {
  /** Folder in which the agent works. */
  readonly folder: string
  /** The data directory, if the program runs in a sandbox that does not see it. */
  readonly isolatedFrom?: string | undefined
  /** The agent's own id of the conversation so far; absent: begin a new one. */
  readonly agentSession?: string | undefined
  /** Aborts when the turn is stopped: by a person, by a limit, or because svc stops. */
  readonly signal: AbortSignal
  /**
   * Asks the owner, and waits. @returns the id of the chosen option; without an answer in time, that of an option that
   * rejects
   * @throws SvcError if it has no such option; the reason of a signal
   */
  ask(request: PermissionRequest): Promise<string>
  /**
   * Keeps the agent's own id of the conversation as soon as it is known. So the conversation goes on after a turn that is
   * stopped or fails.
   */
  keepSession?(agentSession: string): void
}

/** Why an answer ended before it was complete, by the words of programs and models. */
const earlyEnds: Readonly<Record<EarlyEnd, readonly unknown[]>> = {
  length: ['length', 'max_tokens'],
  refused: ['content_filter', 'refusal'],
  steps: ['max_turn_requests', 'error_max_turns'],
}
export type EarlyEnd = 'length' | 'refused' | 'steps'

/** Returns why an answer ended early; undefined if it did not. @param reason what the program or model gives as its end */
export const earlyEndOf = (reason: unknown): EarlyEnd | undefined =>
  (Object.keys(earlyEnds) as EarlyEnd[]).find(end => earlyEnds[end].includes(reason))

/** The result of a turn. */
export interface TurnResult {
  /** The answer, as Markdown. */
  readonly text: string
  /** Why the answer is not complete. */
  readonly early?: EarlyEnd | undefined
  /** The agent's own id of the conversation, to continue it. */
  readonly agentSession?: string | undefined
  /** Files that the agent made for the user, by absolute paths in the folder. */
  readonly files?: readonly string[]
  /** How many of its pictures and files could not be taken. */
  readonly leftOut?: number
}

/** Runs turns. Those of one conversation run one after another, those of different conversations at the same time. */
export interface Backend {
  /**
   * Runs one turn.
   *
   * @throws SvcError for an agent that fails, ends without an answer, or prints too much; the reason of the signal when
   *   the turn was stopped
   */
  run(prompt: Prompt, context: TurnContext): Promise<TurnResult>
  /**
   * Starts the agent once, without a prompt, and returns in words in which mode it will work. Absent for a backend
   * without modes.
   *
   * @throws SvcError as `run`, such as one for a mode that the agent does not have
   */
  describe?(folder: string, signal: AbortSignal): Promise<string>
  /** Ends every process. */
  close(): Promise<void>
}
