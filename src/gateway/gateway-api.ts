/**
 * The gateway's public interface: the verbs that tools and doors call, each described where it is made.
 *
 * Everything here throws `SvcError` from the closed catalogue for what a caller can cause or act on.
 */
import type { Accounts } from '../accounts/accounts.ts'
import type { Logins } from '../accounts/logins.ts'
import type { Users } from '../accounts/users.ts'
import type { Downloads, OpenedMedia } from '../media/downloads.ts'
import type { Uploads } from '../media/uploads.ts'
import type { Clock } from '../platform/clock.ts'
import type { EventReader } from '../push/events.ts'
import type { Webhooks } from '../push/webhooks.ts'
import type { Inbox } from '../receive/inbox.ts'
import type { Outbox } from '../send/outbox.ts'
import type { Sender } from '../send/send.ts'
import type { SignIns } from '../storage/state.ts'
import type { Changes } from './changes.ts'
import type { Conversations } from './conversations.ts'
import type { Health } from './health.ts'
import type { History } from './history.ts'
import type { Metrics } from './metrics.ts'

export interface Gateway {
  readonly inbox: Pick<Inbox, 'begin' | 'end' | 'follow' | 'recv' | 'waiting'>
  readonly sender: Pick<Sender, 'send' | 'foresee'>
  readonly outbox: Pick<Outbox, 'list' | 'get' | 'cancel' | 'approve'>
  readonly media: Pick<Downloads, 'download' | 'open'> &
    Pick<Uploads, 'accept'> & {
      /** The file of a message, by its row: also while it waits, since somebody is to say yes to it. */
      show(request: { row: number; sized?: boolean }, signal: AbortSignal): Promise<OpenedMedia>
    }
  readonly history: Pick<History, 'page'>
  readonly conversations: Pick<Conversations, 'list' | 'markRead' | 'markUnread' | 'hours'>
  readonly accounts: Pick<
    Accounts,
    'list' | 'receiving' | 'users' | 'withUsers' | 'check' | 'logout' | 'rename' | 'setDefault'
  >
  /** Names are never for agents to give: whoever talks to them could have a stranger named. */
  readonly users: Pick<Users, 'list' | 'name'>
  readonly logins: Pick<Logins, 'login' | 'begin' | 'callOff' | 'follow' | 'forget' | 'giveCode' | 'leave'>
  readonly webhooks: Pick<Webhooks, keyof Webhooks>
  readonly events: Pick<EventReader, 'begin' | 'head' | 'page' | 'follow' | 'seen' | 'wanted'>
  readonly changes: Pick<Changes, 'subscribe'>
  readonly metrics: Pick<Metrics, 'answered' | 'text'>
  readonly signIns: SignIns
  /** The system's; in a sandbox that of the simulated world, which its phone moves. */
  readonly clock: Clock
  health(): Promise<Health>
  /** As of `Leases.holder`. */
  pollerPid(): Promise<number | undefined>
  /** Unix ms: since when this process polls, if it does. */
  pollsSince(): number | undefined
}
