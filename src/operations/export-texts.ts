/** What the page of an export says, in the languages of the panel, with times as its reader writes them. */
import { badArgument } from '../model/error.ts'
import { isMoment } from '../platform/format.ts'

/** In English (`one|many` for counts), and in Chinese. */
const texts = {
  title: ['Messages', '消息'],
  all: ['All conversations', '全部会话'],
  none: ['No messages match.', '没有符合的消息。'],
  messages: ['{n} message|{n} messages', '{n} 条消息'],
  talks: ['{n} conversation|{n} conversations', '{n} 个会话'],
  since: ['from {at}', '{at}起'],
  until: ['until {at}', '截至 {at}'],
  exported: ['exported on {at}', '导出于 {at}'],
  zone: ['times are in {zone}', '时间按 {zone} 时区显示'],
  sent: ['Sent:', '发出：'],
  received: ['Received:', '收到：'],
  sent_by: ['Sent by', '发送者：'],
  quote: ['Reply to:', '回复：'],
  quote_gone: ['A message that is not stored', '被引用的消息不在记录中'],
  unsupported: ['WeChat does not show this kind of message to bots.', '微信不向机器人开放这类消息。'],
  TEXT: ['Text', '文字'],
  IMAGE: ['Picture', '图片'],
  VOICE: ['Voice message', '语音'],
  FILE: ['File', '文件'],
  VIDEO: ['Video', '视频'],
  UNKNOWN: ['Unknown message', '其他类型的消息'],
  queued: ['Waits to be sent', '等待发送'],
  sending: ['Is being sent', '发送中'],
  accepted: ['', ''],
  suspect: ['WeChat gave it no ID, so it may not have arrived', '微信没有返回消息 ID，对方可能看不到'],
  refused: ['Was not sent', '未发送'],
  unknown: ['No answer came, so it may have arrived', '微信没有回应，可能已送达'],
  save: ['Save', '保存'],
  gone: ['WeChat no longer has it', '微信已不再保留'],
  no_file: ['WeChat has no file for it', '微信没有对应的文件'],
  large: ['it is larger than 8 MiB', '超过 8 MiB'],
  full: ['this page has 256 MiB of files already', '此页面已包含 256 MiB 的文件'],
  failed: ['it could not be fetched', '未能获取'],
  offline: ['WeChat could not be reached', '无法连接微信'],
  missing: ['Not in this page', '未包含在此页面中'],
  files: ['{n} file: {why}|{n} files: {why}', '{n} 个文件：{why}'],
  end: ['End of the export.', '导出到此结束。'],
} as const satisfies Record<string, readonly [en: string, zh: string]>
export type ExportText = keyof typeof texts

/** How a page speaks to its reader. */
export type Reader = ReturnType<typeof readerOf>

/**
 * @param language such as en-GB or zh
 * @param timeZone such as Asia/Shanghai; default: that of the service
 * @throws SvcError if one of them is unknown
 */
export function readerOf(language = 'en', timeZone?: string) {
  let field = 'language'
  try {
    Intl.getCanonicalLocales(language)
    field = 'time_zone'
    new Intl.DateTimeFormat('en', { timeZone })
  } catch {
    throw badArgument(field, 'expected a name such as en-GB or Asia/Shanghai')
  }
  const format = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat(language, { timeZone, ...options })
  const isChinese = /^zh\b/i.test(language)
  /** Returns a text. `n` chooses its plural form. */
  const t = (key: ExportText, values: Readonly<Record<string, string | number>> = {}): string => {
    const [one = '', many = one] = texts[key][isChinese ? 1 : 0].split('|')
    return (values.n === 1 ? one : many).replace(/\{(\w+)\}/g, (all, name: string) => {
      const value = values[name] ?? all
      return typeof value === 'number' ? value.toLocaleString(language) : value
    })
  }
  /** Formats a time, which may be anything that WeChat sent. */
  const at = (time: number, format: Intl.DateTimeFormat): string =>
    isMoment(time) ? format.format(time) : '–'
  return {
    language: isChinese ? 'zh' : 'en',
    t,
    at,
    zone: format({}).resolvedOptions().timeZone,
    day: format({ dateStyle: 'full' }),
    date: format({ dateStyle: 'medium' }),
    minute: format({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
  }
}
