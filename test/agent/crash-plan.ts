/** What a test tells the process of an agent that kills itself. */
import type { AgentConfig } from '../../src/agent/config.ts'
import type { SvcOptions } from '../../src/index.ts'

/** The answer to each message has so many bits, of 1000 characters each; of 3000 if it may be a file. */
export const bitsPerMessage = 6

export interface CrashPlan {
  options: SvcOptions
  folders: string
  /** Step at which it dies; 0: it does not. */
  dieAt: number
  settings: Partial<AgentConfig>
}
