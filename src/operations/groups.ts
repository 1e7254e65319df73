/**
 * Operations as the library has them: each group is a field of `Svc`, and each operation in it a method with this name.
 */
import * as ofAgents from './agents.ts'
import { getBackups } from './backups.ts'
import * as ofInvitations from './invitations.ts'
import * as ofKeys from './keys.ts'
import * as ofOutbox from './outbox.ts'
import * as ofTopics from './topics.ts'
import * as ofWebhooks from './webhooks.ts'

/** Operations for queued sends. All processes that use the store of the data directory share the outbox. */
const outbox = {
  /** Lists the sends that wait, oldest first. */
  list: ofOutbox.listOutbox,
  /** Returns a queued send and its status, up to a week after the call. @throws SvcError `not_found` */
  get: ofOutbox.getOutbox,
  /** Cancels the parts that are not sent yet. @throws SvcError `not_found` */
  cancel: ofOutbox.cancelOutbox,
  /**
   * Approves a send that waits for a person's approval.
   *
   * @throws SvcError `not_found`, and the errors of `send`
   */
  approve: ofOutbox.approveOutbox,
}

/**
 * Operations for webhook endpoints. The process of the data directory that polls delivers to them. This
 * program can be that process once `runBackground` runs. All operations except `list` and `add` throw
 * `not_found`.
 */
const webhooks = {
  /** Lists the endpoints, oldest first. */
  list: ofWebhooks.listWebhooks,
  get: ofWebhooks.getWebhook,
  /** Adds an endpoint for events from now on. Only this result contains the secret. */
  add: ofWebhooks.addWebhook,
  /** Delivers an event of type `webhook.test` now. */
  test: ofWebhooks.testWebhook,
  /** Lists the newest delivery attempts, newest first. */
  log: ofWebhooks.listWebhookDeliveries,
  /** Stops deliveries until `resume`. Events wait. */
  pause: ofWebhooks.pauseWebhook,
  /**
   * Resumes deliveries immediately with the first undelivered event. Also for an endpoint that svc has
   * switched off.
   */
  resume: ofWebhooks.resumeWebhook,
  /** Creates a new secret. For a day, deliveries are also signed with the old secret. */
  rotate: ofWebhooks.rotateWebhook,
  /** Delivers all events since an event or a time again, and returns how many they are. */
  replay: ofWebhooks.replayWebhook,
  /** Removes an endpoint, its log and its undelivered events. */
  remove: ofWebhooks.removeWebhook,
}

/** Operations for keys of programs and people that call a service of the data directory. */
const keys = {
  /** Lists the keys, oldest first, without their secrets: 1000 of them from `offset` on, or `limit`. */
  list: ofKeys.listKeys,
  /** Returns a key by its id or name. @throws SvcError `not_found` */
  get: ofKeys.getKey,
  /** Makes a key. Only this result contains it. From the first key on, callers over TCP need one. */
  add: ofKeys.addKey,
  /** Makes a new secret. The old one is accepted for `keep_old_seconds`, 0 by default. */
  rotate: ofKeys.rotateKey,
  /** Ends a key, and the keys that it made, within a second. @throws SvcError `not_found` */
  revoke: ofKeys.revokeKey,
}

/** Operations for invitations, by which people log an account in by themselves. */
const invitations = {
  /** Lists all invitations, oldest first, without their secrets. */
  list: ofInvitations.listInvitations,
  /** Makes a link. Only this result contains it. */
  add: ofInvitations.addInvitation,
  /** Ends an invitation. Accounts that joined by it stay. @throws SvcError `not_found` */
  revoke: ofInvitations.revokeInvitation,
}

/** Operations for topics, by which programs notify people. The process that polls sends what is said to them. */
const topics = {
  /** Lists all topics by name, without their secrets. */
  list: ofTopics.listTopics,
  /** Returns a topic with what waits, and why. @throws SvcError `not_found` */
  get: ofTopics.getTopic,
  add: ofTopics.addTopic,
  /** Changes what is given. @throws SvcError `not_found` */
  change: ofTopics.changeTopic,
  /** Removes a topic with what waits. @throws SvcError `not_found` */
  remove: ofTopics.removeTopic,
  /** Says something to a topic; it is stored when this resolves. @throws SvcError `not_found` */
  notify: ofTopics.notify,
}

/** Operations for backups. A service makes them by its schedule. */
const backups = {
  /** Returns the newest backup, and why the last one by schedule failed. */
  status: getBackups,
}

/** Operations for agents in front of WeChat. */
const agents = {
  /** Lists the users who talk with an agent. */
  conversations: ofAgents.listAgentConversations,
  /** Lists turns, the newest first. */
  turns: ofAgents.listAgentTurns,
  /** Stops a turn that has not ended. @throws SvcError `not_found` */
  stop: ofAgents.stopAgentTurn,
  /**
   * Gives an agent a prompt. The user gets the answer.
   *
   * @throws SvcError `not_found` for a user who has not written, `session_not_found`
   */
  inject: ofAgents.injectAgentTurn,
  /** Lists when agents are to do something, the next one first. */
  times: ofAgents.listAgentTimes,
  /** Lets an agent do something at a time. @throws SvcError `not_found`, `invalid_arguments` */
  addTime: ofAgents.addAgentTime,
  /** Removes a time. @throws SvcError `not_found` */
  cancelTime: ofAgents.cancelAgentTime,
  /** Lists the open questions. */
  questions: ofAgents.listAgentQuestions,
  /** Answers a question. @throws SvcError `not_found`, `invalid_arguments` */
  answer: ofAgents.answerAgentQuestion,
}

export const groups = { outbox, webhooks, keys, invitations, topics, backups, agents }
