/** The library's face: the types a program works with. */
export { type ErrorCode, errorCodes, isSvcError, SvcError } from './model/error.ts'
export type {
  MediaContent,
  Message,
  MessageItem,
  QuotedMessage,
  SendPart,
  SendResult,
} from './model/message.ts'
export type { LoginStatus, Session } from './model/session.ts'
