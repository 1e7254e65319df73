/** Topics: made and changed by people, and what senders say to them. */
import type { Call } from '../model/call.ts'
import type { Principal } from '../model/principal.ts'
import type {
  AcceptedNotice,
  NewTopicInput,
  Notice,
  Topic,
  TopicChangeInput,
  TopicForDoor,
  TopicState,
} from '../model/topic.ts'

export class Topics {
  /**
   * Stores what a sender says. It is durable when this returns.
   *
   * @throws SvcError `not_found` for an unknown topic, and for one that the caller's key does not name;
   *   `rate_limited`, `payload_too_large`
   */
  accept(_call: Call, _topic: string, _notices: readonly Notice[]): Promise<AcceptedNotice[]> {
    throw new Error('not yet')
  }

  /** Returns what a door needs to know of a topic; undefined where `accept` answers `not_found`. */
  find(_by: Principal, _topic: string): Promise<TopicForDoor | undefined> {
    throw new Error('not yet')
  }

  /** Makes a topic. @throws SvcError `invalid_arguments`, `not_connected`, `session_not_found` */
  add(_by: Principal, _input: NewTopicInput): Promise<Topic> {
    throw new Error('not yet')
  }

  /** Lists all topics, by name. */
  list(_by: Principal): Promise<Topic[]> {
    throw new Error('not yet')
  }

  /** Returns a topic with what waits, and why. @throws SvcError `not_found` */
  show(_by: Principal, _topic: string): Promise<TopicState> {
    throw new Error('not yet')
  }

  /** @throws SvcError `not_found`, `invalid_arguments` */
  change(_by: Principal, _input: TopicChangeInput): Promise<Topic> {
    throw new Error('not yet')
  }

  /** Removes a topic with what waits. @throws SvcError `not_found` */
  remove(_by: Principal, _topic: string): Promise<Topic> {
    throw new Error('not yet')
  }
}
