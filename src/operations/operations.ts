/** Every operation besides the tools, by what it is about, in the order of the docs. */
import { checkSessions } from './check.ts'
import { followEvents, linkEvents } from './events.ts'
import { getMedia, getWaitingFile, uploadMedia } from './media.ts'
import type { Operation } from './operation.ts'
import { approveOutbox, cancelOutbox, declineOutbox, getOutbox, listApprovals, listOutbox } from './outbox.ts'
import { health, listTools, metrics } from './service.ts'
import { getShared } from './shared.ts'
import { tools } from './tools.ts'
import { showTyping } from './typing.ts'
import { listUsers, nameUser } from './users.ts'
import {
  addWebhook,
  getWebhook,
  listWebhooks,
  pauseWebhook,
  removeWebhook,
  replayWebhook,
  resumeWebhook,
  rotateWebhook,
  testWebhook,
  webhookLog,
} from './webhooks.ts'

/** What waits to be sent: for clients of MCP too. */
export const outboxOperations = [listOutbox, getOutbox, cancelOutbox] as const

export const messageOperations = [...outboxOperations, approveOutbox, listUsers, nameUser] as const

export const webhookOperations = [
  listWebhooks,
  addWebhook,
  getWebhook,
  webhookLog,
  removeWebhook,
  testWebhook,
  pauseWebhook,
  resumeWebhook,
  rotateWebhook,
  replayWebhook,
] as const

export const mediaOperations = [uploadMedia, getMedia] as const

/** What a service tells of itself, and of what its webhooks link to. */
const serviceOperations = [getShared, health, metrics] as const

/** What clients of another door than REST need besides: uploads, the bytes of media, what waits, health. */
export const sideOperations: readonly Operation[] = [
  ...mediaOperations,
  ...outboxOperations,
  ...serviceOperations,
]

/** All there are, the tools first. */
export const operations: readonly Operation[] = [
  ...tools,
  listTools,
  ...mediaOperations,
  getWaitingFile,
  ...messageOperations,
  listApprovals,
  declineOutbox,
  followEvents,
  linkEvents,
  ...webhookOperations,
  ...serviceOperations,
  showTyping,
  checkSessions,
]
