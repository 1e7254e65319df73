/** The settings of an agent. */
import { basename, isAbsolute } from 'node:path'
import { withoutSecrets } from './redact.ts'

/** `ask`: a mode that asks before the agent acts. `own`: the agent's own. Or a mode by its name. */
export type WantedMode = 'ask' | 'own' | { readonly name: string }

/** An address with the API of OpenAI, such as Ollama's. */
export interface OpenAiConfig {
  /** With its version: `http://127.0.0.1:11434/v1`. */
  readonly url: string
  readonly model: string
  /** File that holds the key of the address. */
  readonly keyFile?: string | undefined
  /** What the model is asked to be. */
  readonly system?: string | undefined
}

/** Which agent program answers, and how svc talks to it. */
export type BackendConfig =
  | {
      readonly kind: 'command'
      /** Program and arguments. */
      readonly command: readonly string[]
    }
  | {
      /** Agent Client Protocol, version 1, over stdio. */
      readonly kind: 'acp'
      readonly command: readonly string[]
      /** Mode of its sessions; absent: one that asks. */
      readonly mode?: WantedMode
    }
  | (OpenAiConfig & { readonly kind: 'openai' })

/** Returns what an agent is, for those who choose one: nothing that may be a secret. */
export function describeBackend(backend: BackendConfig): string {
  if (backend.kind === 'openai') return `${backend.model}, ${new URL(backend.url).host}`
  const [program = '', ...rest] = backend.command
  // The first argument of most programs says what it does, such as -p, exec or --acp. A path is of this machine.
  const first = rest.slice(0, 2).find(word => !isAbsolute(word)) ?? ''
  const words = [basename(program), ...(/^[\w@./-]{1,40}$/.test(first) ? [first] : [])]
  return withoutSecrets(words.join(' '), {})
}

export interface AgentConfig {
  /** Name of the agent: part of its consumer, of the audit log and of the panel. */
  readonly name: string
  readonly backend: BackendConfig
  /** Only messages of this session. */
  readonly session?: string | undefined
  /** Users besides the owner who may talk with it, by id or name; everyone: any user. */
  readonly allow: readonly string[] | 'everyone'
  /**
   * Only these users, by id or name; the owner too must be named. A folder is that user's. Absent: the owner and the
   * users in `allow`.
   */
  readonly users?: Readonly<Record<string, { readonly folder?: string | undefined }>> | undefined
  /** Folder of all conversations; by default each user has an empty one. */
  readonly folder?: string | undefined
  /** Folders to which the person who decides may go, by their names. `folder` is the first. */
  readonly folders?: Readonly<Record<string, string>> | undefined
  /** Run the agent in a sandbox that does not see the data directory. */
  readonly isolate: boolean
  /** Variables that it gets also in a sandbox, and those that svc otherwise keeps to itself. */
  readonly env?: readonly string[] | undefined
  /** A message that comes while the agent works stops the turn. */
  readonly interrupt: boolean
  /** Time zone of the times that people set; absent: that of the machine. */
  readonly zone?: string | undefined
  /** Whether /stop, /new and the like are commands. */
  readonly commands: boolean
  /** Messages within this time are one turn, in milliseconds. */
  readonly gatherMs: number
  /** Messages older than this get no answer, in milliseconds. */
  readonly skipOlderMs?: number | undefined
  /** Maximum number of turns in 24 hours. */
  readonly turnsPerDay?: number | undefined
  readonly minutesPerTurn: number
  /** Above three messages an answer is a file, or is split; absent: a file above 12,000 characters. */
  readonly long?: 'file' | 'split' | undefined
  /** Run a turn again that a crash interrupted; the agent may then do things twice. */
  readonly resumeTurns: boolean
  /** Which answers a person approves before they are sent: those to all, or to all but the operator. */
  readonly approve?: 'all' | 'others' | undefined
  /** Who decides what the agent may do and say, by id or name; absent: the owner of the account. */
  readonly operator?: string | undefined
  /** Command that prints what is said in the WAV file that is its last argument. */
  readonly transcribe?: string | undefined
}

export const defaultAgent: Omit<AgentConfig, 'backend'> = {
  name: 'agent',
  allow: [],
  isolate: false,
  interrupt: false,
  commands: true,
  gatherMs: 1500,
  minutesPerTurn: 10,
  resumeTurns: false,
}
