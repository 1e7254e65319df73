/**
 * Formats messages as a conversation. Text of users is indented, so that no line of it looks like one of
 * svc.
 */
import type { Message, MessageItem } from '../model/message.ts'
import { formatCaller } from '../model/principal.ts'
import { sessionKeyOf } from '../model/session.ts'
import { formatBytes, formatLocalTime } from '../platform/format.ts'
import { colours, oneLine, safeLines } from './terminal.ts'

/** Formats a message in a few lines. @param again flags to add to commands in it, from `directoryFlagsOf` */
export function formatMessage(message: Message, again = ''): string {
  const lines = [formatHead(message), ...formatQuote(message)]
  if (message.text !== '') lines.push(...safeLines(message.text).map(line => `    ${line}`))
  const media = message.items.filter(item => item.has_media)
  for (const item of message.items) {
    if (item.kind === 'TEXT') continue
    lines.push(`    ${formatMedia(item, message, media.indexOf(item), again)}`)
    if (item.transcript) lines.push(...safeLines(item.transcript).map(line => `    “${line}”`))
  }
  return `${lines.join('\n')}\n`
}

function formatHead(message: Message): string {
  const { cyan, dim, green, yellow } = colours
  const user = message.user_name ?? (message.direction === 'received' ? message.from_user : message.to_user)
  // An invited person and the session often have the same name.
  const session = dim(sessionKeyOf(message.session) === sessionKeyOf(user) ? 'bot' : oneLine(message.session))
  const group = message.group_id === undefined ? '' : dim(`  in group ${oneLine(message.group_id)}`)
  const when = dim(formatLocalTime(message.timestamp))
  if (message.direction === 'received') {
    const again = message.redelivered ? yellow('  (again)') : ''
    return `${when}  ${cyan(oneLine(user))} → ${session}${group}${again}`
  }
  const reason = message.reason === undefined ? '' : `: ${oneLine(message.reason)}`
  const fate =
    message.status === undefined || message.status === 'accepted'
      ? ''
      : yellow(`  (${message.status}${reason})`)
  const { sent_by = 'owner', sent_by_name } = message
  const by = sent_by === 'owner' ? '' : dim(`  by ${oneLine(formatCaller(sent_by, sent_by_name))}`)
  const joined = message.sent_with === undefined ? '' : dim('  (sent together with another message)')
  return `${when}  ${session} → ${green(oneLine(user))}${group}${by}${fate}${joined}`
}

function formatQuote({ ref_msg }: Message): string[] {
  if (!ref_msg) return []
  const lines = ref_msg.text
    ? safeLines(ref_msg.text)
    : [`[${(ref_msg.msg_type ?? 'a message').toLowerCase()}]`]
  return lines.map(line => colours.dim(`    │ ${line}`))
}

function formatMedia(item: MessageItem, message: Message, nth: number, again: string): string {
  if (item.kind === 'UNKNOWN') return colours.dim(describeItem(item))
  const fetch =
    nth < 0 || message.direction === 'sent'
      ? ''
      : colours.dim(`  svc download ${oneLine(message.message_id)}${nth > 0 ? ` -i ${nth}` : ''}${again}`)
  return `${describeItem(item)}${fetch}`
}

/** Describes an item that is no text: kind, name, size, length. */
export function describeItem(item: MessageItem): string {
  if (item.kind === 'UNKNOWN') return '[something svc does not know; --json shows what there is]'
  const facts = [
    item.kind.toLowerCase(),
    ...(item.file_name === undefined ? [] : [oneLine(item.file_name)]),
    // WeChat gives the encrypted size of all but files: up to 16 bytes more.
    ...(item.size === undefined ? [] : [`${item.kind === 'FILE' ? '' : 'about '}${formatBytes(item.size)}`]),
    ...(item.kind === 'VOICE' && item.playtime !== undefined
      ? [`${Math.max(1, Math.round(item.playtime / 1000))} s`]
      : []),
  ]
  return `[${facts.join(' · ')}]`
}
