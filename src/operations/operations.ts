/** Lists of the operations: all of them, and those of single doors. */
import * as accounts from './accounts.ts'
import * as agents from './agents.ts'
import { listAudit } from './audit.ts'
import { getBackups, makeBackup } from './backups.ts'
import { checkSessions } from './check.ts'
import { leaseMessages, listConsumers, removeConsumer, renewLeases, settleLeases } from './consumers.ts'
import * as conversations from './conversations.ts'
import { followChanges, followEvents, linkEvents } from './events.ts'
import { exportMessages } from './export.ts'
import * as invitations from './invitations.ts'
import { addKey, getKey, listKeys, me, revokeKey, rotateKey } from './keys.ts'
import { logout } from './logout.ts'
import { getMedia, getWaitingFile, uploadMedia } from './media.ts'
import { acceptNotices } from './notices.ts'
import type { Operation } from './operation.ts'
import { approveOutbox, cancelOutbox, declineOutbox, getOutbox, listApprovals, listOutbox } from './outbox.ts'
import { forgetUser } from './people.ts'
import { addQuestion, cancelQuestion, getQuestion } from './questions.ts'
import { beginReading, describeInbox, followMessages, openMessages } from './reading.ts'
import { relayClient, relayDownload, relayPoll, relaySend } from './relaying.ts'
import { addRelay, allowRelay, listRelays, removeRelay } from './relays.ts'
import { renameSession } from './rename-session.ts'
import { foreseeSend, send } from './send.ts'
import { health, listNodes, listTools, metrics, ready } from './service.ts'
import { setDefault } from './set-default.ts'
import { getShared } from './shared.ts'
import { createPanelLink, signIn, signOut } from './sign-in.ts'
import { status } from './status.ts'
import { subscribeEvents, unsubscribeEvents } from './subscriptions.ts'
import { tools } from './tools.ts'
import { addTopic, changeTopic, getTopic, listTopics, notify, removeTopic } from './topics.ts'
import { showTyping } from './typing.ts'
import { listUsers, nameUser } from './users.ts'
import * as webhooks from './webhooks.ts'

/** Operations for messages that wait to be sent. Also part of `operationsBesideMcp`. */
const outboxOperations = [listOutbox, getOutbox, cancelOutbox] as const

const messageOperations = [...outboxOperations, approveOutbox, listUsers, nameUser] as const

/** Beside these, the command line, the library and MCP have `ask`, which waits. */
const questionOperations = [addQuestion, getQuestion, cancelQuestion] as const

const webhookOperations = [
  webhooks.listWebhooks,
  webhooks.addWebhook,
  webhooks.getWebhook,
  webhooks.listWebhookDeliveries,
  webhooks.removeWebhook,
  webhooks.testWebhook,
  webhooks.pauseWebhook,
  webhooks.resumeWebhook,
  webhooks.rotateWebhook,
  webhooks.replayWebhook,
] as const

const keyOperations = [
  listKeys,
  addKey,
  getKey,
  rotateKey,
  revokeKey,
  listRelays,
  addRelay,
  removeRelay,
  allowRelay,
  me,
] as const

const invitationOperations = [
  invitations.listInvitations,
  invitations.addInvitation,
  invitations.revokeInvitation,
] as const

const topicOperations = [listTopics, addTopic, getTopic, changeTopic, removeTopic] as const

const agentOperations = [
  agents.listAgentConversations,
  agents.listAgentTurns,
  agents.stopAgentTurn,
  agents.injectAgentTurn,
  agents.listAgentTimes,
  agents.addAgentTime,
  agents.cancelAgentTime,
  agents.listAgentQuestions,
  agents.answerAgentQuestion,
] as const

const mediaOperations = [uploadMedia, getMedia] as const

/** Operations that the panel's page links to: their answers are files. */
export const linkedOperations = [...mediaOperations, getWaitingFile, exportMessages] as const

/** The state of the service, and the links in webhook deliveries. */
const serviceOperations = [getShared, health, ready, metrics] as const

/**
 * Operations that `svc mcp -t http` serves over HTTP beside MCP: uploads, media, waiting messages, health.
 */
export const operationsBesideMcp: readonly Operation[] = [
  ...mediaOperations,
  ...outboxOperations,
  ...serviceOperations,
]

/** Operations that the panel's page calls, by the headings of the panel's docs. */
export const panelOperations = {
  panel: [status],
  accounts: [
    accounts.listAccounts,
    accounts.startLogin,
    accounts.followLogin,
    accounts.giveLoginCode,
    accounts.cancelLogin,
    checkSessions,
    logout,
    renameSession,
    setDefault,
    ...invitationOperations,
  ],
  messages: [
    conversations.listConversations,
    conversations.markRead,
    conversations.markUnread,
    conversations.listMessages,
    conversations.countMessages,
    send,
    ...messageOperations,
  ],
  webhooks: webhookOperations,
  topics: topicOperations,
  keys: keyOperations,
  agents: agentOperations,
  service: [listNodes, listAudit, getBackups, makeBackup, forgetUser],
} as const

/** Operations that doors call for their own needs. No caller can call them by name. */
const doorOperations = [
  conversations.getConversation,
  beginReading,
  describeInbox,
  followMessages,
  followChanges,
  foreseeSend,
  accounts.forgetLogin,
  openMessages,
  agents.workAsAgent,
  createPanelLink,
  signIn,
  signOut,
  invitations.lookAtInvitation,
  invitations.joinByInvitation,
  invitations.giveInvitedCode,
  subscribeEvents,
  unsubscribeEvents,
  acceptNotices,
  relayClient,
  relayPoll,
  relaySend,
  relayDownload,
] as const

/** All operations, the tools first. */
export const operations: readonly Operation[] = [
  ...new Set<Operation>([
    ...tools,
    listTools,
    ...mediaOperations,
    getWaitingFile,
    exportMessages,
    ...messageOperations,
    ...questionOperations,
    listApprovals,
    declineOutbox,
    followEvents,
    linkEvents,
    ...webhookOperations,
    ...topicOperations,
    notify,
    ...keyOperations,
    ...agentOperations,
    ...serviceOperations,
    showTyping,
    checkSessions,
    listConsumers,
    removeConsumer,
    leaseMessages,
    renewLeases,
    settleLeases,
    ...doorOperations,
    ...Object.values(panelOperations).flat(),
    accounts.logoutAccount,
    accounts.renameAccount,
  ]),
]
