/** Public exports of the library. */

export type {
  AskInput,
  AuditQuery,
  CallOptions,
  EventsOptions,
  ExportFilter,
  MessagesOptions,
  PartGrant,
  SvcAgents,
  SvcApi,
  SvcBackups,
  SvcInvitations,
  SvcKeys,
  SvcOutbox,
  SvcPart,
  SvcTopics,
  SvcWebhooks,
} from './client/api.ts'
export type { HandlerContext, HandlerOptions, MessageHandler } from './client/handlers.ts'
export type { ConnectOptions } from './client/svc.ts'
export type {
  Downloaded,
  DownloadInput,
  HistoryInput,
  HistoryPage,
  LoginInput,
  LogoutInput,
  LogoutResult,
  RecvInput,
  RenameSessionInput,
  RenameSessionResult,
  SendInput,
  SetDefaultInput,
  SetDefaultResult,
} from './client/verbs.ts'
export type { Health } from './gateway/health.ts'
export type { SvcOptions } from './library/options.ts'
export { Svc } from './library/svc.ts'
export type {
  AgentConversation,
  AgentQuestion,
  AgentTurn,
  QuestionOption,
  TurnStatus,
} from './model/agent.ts'
export type { AuditLine } from './model/audit.ts'
export type { Backup, BackupStatus } from './model/backup.ts'
export { type ErrorCode, errorCodes, isSvcError, SvcError } from './model/error.ts'
export type { Event, SessionChange } from './model/event.ts'
export type { AddedInvitation, Invitation, NewInvitationInput } from './model/invitation.ts'
export type { AddedKey, Key, NewKeyInput, RevokedKeys } from './model/key.ts'
export type { LoginStatus } from './model/login.ts'
export type {
  Cancelled,
  MediaContent,
  Message,
  MessageItem,
  OutboxEntry,
  OutboxPart,
  QuotedMessage,
  Received,
  SendPart,
  SendResult,
} from './model/message.ts'
export type { Forgotten } from './model/person.ts'
export type { KnownUser, NamedUser, NameRequest, Session, SessionUser, UserFilter } from './model/session.ts'
export type { AgentWork } from './operations/agents.ts'
export type { OpenedExport } from './operations/export.ts'
export { type Log, type LogLevel, silentLog } from './platform/log.ts'
export type { OpenMessage } from './receive/inbox.ts'
export type {
  AgentEntry,
  AnswerPart,
  ConversationKey,
  ConversationState,
  KeptSession,
  KnownAgent,
  MissedMessage,
  NewQuestion,
  NewTime,
  NewTurn,
  StoredAnswer,
  StoredQuestion,
  StoredTime,
  StoredTurn,
  TurnChange,
} from './storage/agents.ts'
