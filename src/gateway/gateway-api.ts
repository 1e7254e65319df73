/**
 * The public interface of the gateway. Each method is described where it is implemented.
 *
 * Everything here throws `SvcError` from the closed catalogue for what a caller can cause or act on.
 */
import type { Keys } from '../access/keys.ts'
import type { RelayClients } from '../access/relay-clients.ts'
import type { RelayLogins } from '../access/relay-logins.ts'
import type { Accounts } from '../accounts/accounts.ts'
import type { Invitations } from '../accounts/invitations.ts'
import type { Logins } from '../accounts/logins.ts'
import type { Users } from '../accounts/users.ts'
import type { Downloads, OpenedMedia, ShowRequest } from '../media/downloads.ts'
import type { Uploads } from '../media/uploads.ts'
import type { Nodes } from '../model/nodes.ts'
import type { Clock } from '../platform/clock.ts'
import type { Tasks } from '../platform/tasks.ts'
import type { EventReader } from '../push/events.ts'
import type { Subscriptions } from '../push/subscriptions.ts'
import type { Webhooks } from '../push/webhooks.ts'
import type { ConsumerList } from '../receive/consumers.ts'
import type { Inbox } from '../receive/inbox.ts'
import type { Outbox } from '../send/outbox.ts'
import type { Sender } from '../send/send.ts'
import type { AgentStore } from '../storage/agents.ts'
import type { AuditStore } from '../storage/audit.ts'
import type { EntrySight } from '../storage/outbox.ts'
import type { SignInStore } from '../storage/state.ts'
import type { Topics } from '../topics/topics.ts'
import type { Asks } from './asks.ts'
import type { Backups } from './backups.ts'
import type { Changes } from './changes.ts'
import type { Conversations } from './conversations.ts'
import type { Health } from './health.ts'
import type { History } from './history.ts'
import type { Metrics } from './metrics.ts'
import type { People } from './people.ts'
import type { Relays } from './relays.ts'

export interface Gateway {
  readonly inbox: Pick<
    Inbox,
    | 'begin'
    | 'getHead'
    | 'follow'
    | 'open'
    | 'recv'
    | 'countWaiting'
    | 'lease'
    | 'renewLeases'
    | 'settleLeases'
  >
  readonly consumers: Pick<ConsumerList, 'list' | 'remove'>
  readonly sender: Pick<Sender, 'send' | 'foresee'>
  readonly outbox: Pick<Outbox, 'list' | 'get' | 'cancel' | 'approve'>
  readonly media: Pick<Downloads, 'download' | 'open'> &
    Pick<Uploads, 'accept'> & {
      /**
       * Opens the file of a message, by its row. Also works for a message that waits, since a person has to
       * approve it.
       */
      show(request: ShowRequest & { sight?: EntrySight }, signal: AbortSignal): Promise<OpenedMedia>
    }
  readonly history: Pick<History, 'page' | 'walk'>
  readonly conversations: Pick<Conversations, 'list' | 'markRead' | 'markUnread' | 'countPerHour'>
  readonly accounts: Pick<
    Accounts,
    'list' | 'getReceiving' | 'listUsers' | 'listWithUsers' | 'check' | 'logout' | 'rename' | 'setDefault'
  >
  /**
   * Users and their names. Agents do not get it: a user who talks to an agent could make it rename another
   * user.
   */
  readonly users: Pick<Users, 'list' | 'name'>
  readonly logins: Pick<
    Logins,
    'login' | 'begin' | 'callOff' | 'follow' | 'forget' | 'giveCode' | 'isFollowed' | 'leave'
  >
  readonly invitations: Pick<Invitations, keyof Invitations>
  readonly topics: Pick<Topics, keyof Topics>
  readonly webhooks: Pick<Webhooks, Exclude<keyof Webhooks, 'store'>>
  /** Subscriptions of MCP Events by webhook. */
  readonly subscriptions: Pick<Subscriptions, keyof Subscriptions>
  readonly events: Pick<EventReader, keyof EventReader>
  readonly changes: Pick<Changes, 'subscribe'>
  readonly keys: Pick<Keys, keyof Keys>
  readonly audit: AuditStore
  /** The work that is done in the background. */
  readonly tasks: Pick<Tasks, 'list' | 'listFailing' | 'repeat'>
  readonly backups: Pick<Backups, 'make' | 'status'>
  readonly people: Pick<People, 'forget' | 'listOwned' | 'countErasures'>
  readonly agents: AgentStore
  readonly relays: Pick<Relays, 'hasAny' | 'clientOf' | 'poll' | 'send'>
  readonly relayLogins: Pick<RelayLogins, 'ask' | 'poll' | 'allow'>
  readonly relayClients: Pick<RelayClients, keyof RelayClients>
  readonly asks: Pick<Asks, 'ask' | 'wait' | 'cancel' | 'takes'>
  readonly metrics: Pick<Metrics, 'answered' | 'refused' | 'text'>
  readonly signIns: SignInStore
  /** The system's clock; in a sandbox, the clock of the simulated world, which can be set on its phone. */
  readonly clock: Clock
  health(): Promise<Health>
  /** Returns the nodes that share the store; none if it is in a data directory. */
  nodes(): Promise<Nodes>
  /** Returns the pid of the polling process, same as `Leases.findHolder`. */
  pollerPid(): Promise<number | undefined>
  /** Returns the Unix ms since when this process polls; undefined if it does not. */
  pollsSince(): number | undefined
}
