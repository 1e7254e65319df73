/** Every operation besides the tools, by what it is about, in the order of the docs. */
import { checkSessions } from './check.ts'
import type { Operation } from './operation.ts'
import { approveOutbox, cancelOutbox, declineOutbox, getOutbox, listApprovals, listOutbox } from './outbox.ts'
import { tools } from './tools.ts'
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

/** All there are, the tools first. */
export const operations: readonly Operation[] = [
  ...tools,
  ...messageOperations,
  listApprovals,
  declineOutbox,
  ...webhookOperations,
  checkSessions,
]
