/** What svc keeps of its sessions: who is logged in, and who may be answered. */
import type { BotInfo } from '../model/session.ts'

export interface SessionRecord {
  name: string
  /** Absent when the credentials are damaged. */
  bot?: BotInfo
  damaged?: true
}
