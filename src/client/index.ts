/** Public exports of `svc/client`: the library over a running service alone. */
export { type ErrorCode, errorCodes, isSvcError, SvcError } from '../model/error.ts'
export type { Log } from '../platform/log.ts'
export type {
  AuditQuery,
  CallOptions,
  EventsOptions,
  ExportFilter,
  MessagesOptions,
  PartGrant,
  SvcApi,
  SvcPart,
} from './api.ts'
export type { HandlerContext, HandlerOptions, MessageHandler } from './handlers.ts'
export { ConnectedSvc as Svc, type ConnectOptions } from './svc.ts'
