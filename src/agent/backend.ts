/** What a backend is: the way in which svc runs one turn of an agent program. */
import type { KeptSession, QuestionOption } from '../index.ts'

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

/** Where a conversation goes on. */
export interface SessionContext {
  /** Folder in which the agent works. */
  readonly folder: string
  /** The data directory, if the program runs in a sandbox that does not see it. */
  readonly isolatedFrom?: string | undefined
  /** The agent's own id of the conversation so far; absent: begin a new one. */
  readonly agentSession?: string | undefined
  /** Model that a person chose, by its id; absent: that of the agent. */
  readonly model?: string | undefined
  /** Mode that a person chose, by its id; absent: that of the settings. */
  readonly mode?: string | undefined
  /** Whether the agent gets the tool with which it proposes times. */
  readonly canPropose?: boolean
  /** Aborts when the turn is stopped: by a person, by a limit, or because svc stops. */
  readonly signal: AbortSignal
  /** Notes that the program was started and does not answer yet, as a first start takes its time. */
  noteStarting?(): void
}

/** One turn, as the backend sees it. */
export interface TurnContext extends SessionContext {
  /**
   * Asks the owner, and waits. @returns the id of the chosen option; without an answer in time, that of an option that
   * rejects
   * @throws SvcError if it has no such option; the reason of a signal
   */
  ask(request: PermissionRequest): Promise<string>
  /**
   * Asks the owner whether the agent gets a prompt at a time, and does not wait.
   *
   * @returns an answer for the agent
   * @throws SvcError if it cannot be asked, in words for the agent
   */
  propose?(when: string, prompt: string): Promise<string>
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

/** A mode, a model or a command of an agent. */
export interface Choice {
  readonly id: string
  readonly name: string
  /** May be empty. */
  readonly description: string
  /** Whether the agent asks in this mode before it acts, as far as it tells. Absent for models and commands. */
  readonly asks?: boolean
}

/** What can be chosen, and what holds now. */
export interface Offer {
  readonly choices: readonly Choice[]
  readonly current: string | undefined
}

/** What an agent offers in a conversation. */
export interface AgentOffers {
  /** Whether the session of the context goes on. */
  readonly isSame: boolean
  readonly model?: Offer
  readonly mode?: Offer
  readonly commands?: readonly Choice[]
  /** Why it did not tell its models. */
  readonly untold?: unknown
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
  /**
   * Opens a session without a prompt, and returns what the agent offers. Absent for a program that offers nothing.
   *
   * @throws SvcError as `run`
   */
  look?(context: SessionContext): Promise<AgentOffers>
  /**
   * Returns the sessions in these folders that the agent itself lists, also those that svc did not begin. Absent for one
   * that lists none.
   */
  listSessions?(context: SessionContext, folders: readonly string[]): Promise<KeptSession[]>
  /** Ends every process. */
  close(): Promise<void>
}
