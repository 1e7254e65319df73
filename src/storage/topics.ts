/** Topics, what senders said to them, and the bulletins by which it goes out. The rules for every method are in `store.ts`. */
import type { MediaContent } from '../model/message.ts'
import type { Notice, Priority, TopicForDoor } from '../model/topic.ts'

/** A person, and the account that sends. */
export interface TopicPerson {
  readonly session: string
  readonly user_id: string
}

export interface TopicSettings extends Omit<TopicForDoor, 'name'> {
  readonly min_priority: Priority
  readonly max_priority: Priority
  /** As `23:00-07:00`. */
  readonly quiet?: string
  readonly time_zone?: string
  readonly digest: boolean
  readonly answers: number
  readonly keep_ms: number
  /** Unix ms: until then only `max` goes out. */
  readonly paused_until?: number
}

/** Settings of a topic for which nothing else is said. */
export const defaultTopicSettings: TopicSettings = {
  min_priority: 'min',
  max_priority: 'high',
  digest: false,
  answers: 5,
  keep_ms: 24 * 60 * 60_000,
  attach_private: false,
}

export interface NewTopic extends TopicSettings {
  readonly name: string
  /** At least one, at most `mostMembers`, each once. */
  readonly people: readonly TopicPerson[]
  /** The principal that made it, as from `formatPrincipal`. */
  readonly made_by: string
  readonly created_at: number
}

/** How many notices by name; '' for those of further names. */
export type NameCounts = Readonly<Record<string, number>>

/** What is only counted: what came while too much waited, and what ran out of time. */
export interface MissedNotices {
  readonly more: NameCounts
  readonly expired: NameCounts
}

/** What could not be read in what came since the topic was made or changed. */
export interface UnreadWords {
  /** Bodies in which the template found nothing. */
  readonly template?: number
  /** Severities that nothing maps; '' for further ones. */
  readonly severities?: NameCounts
}

/** What one of its people has instead of the settings of a topic. */
export type OwnSettings = Partial<Pick<TopicSettings, 'quiet' | 'time_zone' | 'answers'>>

/** One of the people of a topic. */
export interface TopicMember extends TopicPerson {
  readonly id: number
  /** The name that people gave to the user. */
  readonly name?: string
  readonly own: OwnSettings
  readonly missed: MissedNotices
  /** Grows with each change of its notices. */
  readonly revision: number
}

export interface StoredTopic extends NewTopic {
  readonly id: number
  /** As they came. */
  readonly people: readonly TopicMember[]
  /** Grows with each change of its settings and its people. */
  readonly revision: number
  readonly unread: UnreadWords
  /** Totals since it was made: a notice counts for each person. */
  readonly sent: number
  readonly expired: number
}

/** A topic as one of its people has it. */
export interface PersonTopic
  extends Pick<TopicSettings, 'min_priority' | 'digest' | 'answers' | 'quiet' | 'time_zone' | 'paused_until'>,
    Pick<TopicMember, 'missed'> {
  /** Id of the member. */
  readonly id: number
  readonly name: string
}

/** What a plan needs to know of a notice. */
export interface BriefNotice {
  readonly id: number
  /** Id of the member of its topic for whom it is. */
  readonly member: number
  /** The same for all people of the topic. */
  readonly shared_id: string
  readonly name: string
  readonly priority: Priority
  /** How often the same came, and how often that was sent already. */
  readonly count: number
  readonly reported: number
  readonly received_at: number
  readonly last_at: number
  readonly expires_at: number
  readonly resolved: boolean
  /** An earlier content of it was sent, and this one is no more urgent. */
  readonly is_repeat: boolean
  readonly has_media: boolean
  /** Name of its file that could not be sent. */
  readonly lost_file: string | undefined
  readonly state: 'waiting' | 'sending' | 'sent' | 'unknown'
}

export interface StoredNotice
  extends BriefNotice,
    Pick<Notice, 'title' | 'text' | 'tags' | 'click' | 'media'> {}

export interface NewBulletin extends TopicPerson {
  readonly id: string
  readonly text: string
  readonly media: readonly MediaContent[]
  /** How many answers it takes. */
  readonly answers: number
  /** The highest of its notices. */
  readonly priority: Priority
  /** Ids of its notices. */
  readonly notices: readonly number[]
  /** What it counts, by the id of the member. */
  readonly missed: Readonly<Record<number, MissedNotices>>
  /** What it names, for a later one that has to say that this one may not have arrived. */
  readonly names: NameCounts
  /** Earlier ones that it says may not have arrived. */
  readonly doubts: readonly string[]
}

export interface StoredBulletin extends Pick<NewBulletin, 'id' | 'session' | 'user_id' | 'text' | 'media'> {
  readonly created_at: number
}

/** Everything that decides what goes to a person. */
export interface PersonTopics {
  readonly topics: readonly PersonTopic[]
  /** What waits, and what was sent and came again; the latest first. */
  readonly notices: readonly BriefNotice[]
  readonly isSending: boolean
  /** Bulletins of the last week that were sent, or may have been; the oldest first. */
  readonly bulletins: readonly Pick<StoredBulletin & NewBulletin, 'created_at' | 'answers' | 'priority'>[]
  /** Bulletins that may not have arrived, of which no later one says so. */
  readonly doubts: readonly { readonly id: string; readonly names: NameCounts }[]
}

/** Files of a topic for a person that wait without their notice. Beyond these, the earlier ones are counted by name. */
export const mostFilesLeft = 20
/** The same without a fingerprint of its sender is one until this long after it was sent. */
export const sameTextMs = 5 * 60_000
/** How long a process has a bulletin, unless it renews that. */
export const bulletinLeaseMs = 60_000

/** Who says notices. */
export interface NoticeSender {
  /** What one sender says is never the same as what another one says, and ends nothing of it. Absent: this one may end all. */
  readonly id?: string
  /** The caller with whom it shares its room. Absent for the owner. */
  readonly family?: string
}

export interface TopicStore {
  /** Lists all topics by name. */
  list(): Promise<StoredTopic[]>

  find(name: string): Promise<StoredTopic | undefined>

  /** @throws SvcError `invalid_arguments` if the name is taken, or there are too many; `unauthorized` for a revoked key */
  add(topic: NewTopic): Promise<void>

  /** @returns false if there is none */
  change(name: string, settings: TopicSettings): Promise<boolean>

  /** Gives one of its people settings of their own. @returns false if there is none */
  changeOwn(name: string, user_id: string, own: OwnSettings): Promise<boolean>

  /** Adds people to a topic. @throws SvcError `invalid_arguments` if they are too many. @returns false without the topic */
  join(name: string, people: readonly TopicPerson[]): Promise<boolean>

  /** Takes people out of a topic, or those of a session out of all, with what waits for them. Without people, a topic goes. */
  leave(who: { name: string; users: readonly string[] } | { session: string }): Promise<void>

  /** Removes a topic with what waits. @returns whether there was one */
  remove(name: string): Promise<boolean>

  /**
   * Takes notices, each as `rules/notices.ts` says, for each person of the topic.
   *
   * @returns the id of each, and until when it is kept; id '0' if only its name was counted; undefined without the topic
   */
  accept(
    topic: string,
    notices: readonly Notice[],
    sender: NoticeSender,
  ): Promise<readonly { id: string; expires_at: number }[] | undefined>

  /** Lists the persons for whom something waits. `version` changes with it. */
  listPersons(): Promise<readonly (TopicPerson & { version: number })[]>

  read(person: TopicPerson): Promise<PersonTopics>

  /** Returns notices, the latest first. */
  readNotices(ids: readonly number[]): Promise<StoredNotice[]>

  /** Lists what a topic has that is not sent, the latest first, at most `limit`. */
  listWaiting(topic: string, limit: number): Promise<BriefNotice[]>

  /** Returns how much waits, by the id of the member. */
  countWaiting(): Promise<ReadonlyMap<number, number>>

  /**
   * Makes a bulletin, which this process sends. Its notices are in no other one.
   *
   * @param version of `listPersons` before what it has was read
   * @returns false, without a change, if something else has changed, or if another one is on its way to the person
   */
  claim(bulletin: NewBulletin, version: number): Promise<boolean>

  /**
   * Takes the bulletins that no process sends.
   *
   * @param own those that this process is sending: it renews its claim
   * @throws RowsFailedError with these
   */
  takeOver(own: readonly string[]): Promise<StoredBulletin[]>

  /**
   * Ends a bulletin. `undone`: its notices wait again. Else a file that did not go waits, under its own name, as long as its notice
   * would have.
   *
   * @param withoutMedia its files are given up
   */
  settle(id: string, outcome: 'sent' | 'unknown' | 'undone', withoutMedia?: boolean): Promise<void>

  /** Returns the ids of the uploads that notices name, and bulletins that are being sent. */
  listFiles(): Promise<ReadonlySet<string>>

  /** Counts what ran out of time, and forgets what nothing depends on any more. @throws RowsFailedError */
  expire(): Promise<void>
}
