/**
 * Bodies for chat programs: Slack, Mattermost, Discord, Teams, Google Chat, and the robots of DingTalk, Feishu and WeCom. They nest
 * what a person reads in blocks, cards and fields; all are read by one walk, in their order, without the marks of layout.
 *
 * @see https://docs.slack.dev/reference/block-kit/blocks
 * @see https://docs.discord.com/developers/resources/webhook#execute-webhook
 * @see https://learn.microsoft.com/outlook/actionable-messages/message-card-reference
 * @see https://adaptivecards.io/explorer/
 * @see https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
 */
import { isObject } from '../../platform/fields.ts'
import { isChatAttachment } from './files.ts'
import { plainName } from './names.ts'
import { isWebAddress, textAt, textOf } from './sent-notice.ts'

type Json = Readonly<Record<string, unknown>>

const isListOf = (value: unknown, isOne: (one: unknown) => boolean): boolean =>
  Array.isArray(value) && value.length > 0 && value.every(isOne)
const hasType = (value: unknown): boolean => textAt(value, 'type') !== ''

/** How each family is known, and the keys that hold what it nests. */
const families: readonly { isOne: (json: Json) => boolean; keys: readonly string[] }[] = [
  // Slack, Mattermost; Teams with adaptive cards.
  { isOne: ({ attachments }) => isListOf(attachments, isChatAttachment), keys: ['attachments'] },
  { isOne: ({ blocks }) => isListOf(blocks, hasType), keys: ['blocks'] },
  { isOne: ({ embeds }) => isListOf(embeds, isObject), keys: ['embeds'] },
  { isOne: json => textAt(json, '@type') === 'MessageCard', keys: ['sections', 'potentialAction'] },
  { isOne: ({ type }) => type === 'AdaptiveCard', keys: ['body', 'actions'] },
  { isOne: ({ cards, cardsV2 }) => isListOf(cardsV2 ?? cards, isObject), keys: ['cards', 'cardsV2'] },
  // DingTalk, WeCom, Feishu.
  {
    isOne: json => textAt(json, 'msgtype') !== '' || textAt(json, 'msg_type') !== '',
    keys: 'text markdown markdown_v2 link news actionCard feedCard textcard template_card content card'.split(
      ' ',
    ),
  },
]

/** Returns the keys of a body that hold what is nested for a chat program. */
export const chatKeysOf = (json: Json): string[] =>
  families.flatMap(({ isOne, keys }) =>
    isOne(json) ? keys.filter(key => typeof json[key] === 'object') : [],
  )

/** What a person reads. */
const texts = new Set(
  'text title pretext content description subtitle header label name footer activitytitle activitysubtitle activitytext authorname toplabel bottomlabel message singletitle desc subtitletext quotetext'.split(
    ' ',
  ),
)
/** Shown if nothing else is. */
const fallbacks = ['fallback', 'summary', 'fallbackText']
const links = new Set('url titlelink href uri link imageurl messageurl singleurl actionurl picurl'.split(' '))
/** What says how it looks. */
const layout = new Set(
  'type style color thumbnail icon startIcon accessory_icon mrkdwn_in msteams'.split(' '),
)
const labels = ['name', 'title', 'key', 'keyname', 'label', 'topLabel']
const maxDepth = 20
const maxLines = 500

/** Returns the lines that a nested value says, in their order, each once. */
export function readChat(value: unknown): string[] {
  const lines = new Set<string>()
  for (const line of linesIn(value, 0)) {
    const plain = plainText(line).trim()
    if (plain) lines.add(plain)
    if (lines.size >= maxLines) break
  }
  return [...lines]
}

function* linesIn(value: unknown, depth: number): Generator<string> {
  if (depth > maxDepth) return
  if (Array.isArray(value)) {
    if (value.length > 0 && value.every(isInline)) yield value.map(inlineText).join('')
    else
      for (const one of value)
        if (typeof one === 'string') yield one
        else yield* linesIn(one, depth + 1)
    return
  }
  if (!isObject(value)) return
  const label = labels.map(key => textAt(value, key)).find(Boolean)
  const said =
    textAt(value, 'value') ||
    (Object.hasOwn(value, 'topLabel') ? textAt(value, 'text') || textAt(value, 'content') : '')
  const isPair = label !== undefined && said !== ''
  if (isPair) yield `${label.replace(/:\s*$/, '')}: ${said}`
  let isSilent = !isPair
  for (const [key, inner] of Object.entries(value)) {
    const name = plainName(key)
    if (layout.has(key) || (isPair && (labels.includes(key) || textOf(inner) === said))) continue
    if (typeof inner === 'object') {
      for (const line of linesIn(inner, depth + 1)) {
        isSilent = false
        yield line
      }
    } else if (texts.has(name) || (links.has(name) && isWebAddress(textOf(inner)))) {
      isSilent = false
      yield textOf(inner)
    }
  }
  if (isSilent) yield fallbacks.map(key => textAt(value, key)).find(Boolean) ?? ''
}

/** Parts of one line: the rich text of Slack, and of Feishu. */
const isInline = (value: unknown): boolean =>
  isObject(value) &&
  (/^(text|link|user|usergroup|channel|emoji|broadcast|date)$/.test(textAt(value, 'type')) &&
  !isObject(value.text)
    ? !Object.hasOwn(value, 'elements')
    : /^(text|a|at|md)$/.test(textAt(value, 'tag')) && !isObject(value.text))

function inlineText(value: unknown): string {
  const address = textAt(value, 'url') || textAt(value, 'href')
  const text =
    textAt(value, 'text') || textAt(value, 'user_name') || textAt(value, 'name') || textAt(value, 'user_id')
  return address && address !== text ? (text ? `${text} (${address})` : address) : text
}

const entities: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  apos: "'",
  '#39': "'",
  nbsp: ' ',
}

/** Returns a text without the marks of chat programs: links, mentions, emphasis, and the few tags of HTML that they take. */
export function plainText(text: string): string {
  return text
    .replace(/<((?:https?|mailto):[^|<>\s]{1,2000})\|([^<>]{0,2000})>/gi, (_, address, label) =>
      linked(label, address),
    )
    .replace(/<((?:https?|mailto):[^|<>\s]{1,2000})>/gi, '$1')
    .replace(/<!date\^[^|<>]{1,300}\|([^<>]{0,300})>/g, '$1')
    .replace(
      /<([@#!])[!&]?(?:subteam\^)?([\w-]{1,100})(?:\|[@#]?([^<>]{0,200}))?>/g,
      (_, mark, id, label) => `${mark === '#' ? '#' : '@'}${label || id}`,
    )
    .replace(/!?\[([^[\]]{0,1000})\]\((https?:[^()\s]{1,2000})(?: "[^"]{0,300}")?\)/gi, (_, label, address) =>
      linked(label, address),
    )
    .replace(
      /<a\s[^<>]{0,300}?href="?([^"<>\s]{1,2000})"?[^<>]{0,300}>([^<>]{0,1000})<\/a>/gi,
      (_, address, label) => linked(label, address),
    )
    .replace(/<br\s*\/?>|<\/(?:p|div|li|h\d)>/gi, '\n')
    .replace(
      /<\/?(?:b|strong|i|em|u|s|strike|code|pre|p|div|span|font|ul|ol|li|h\d)(?:\s[^<>]{0,300})?>/gi,
      '',
    )
    .replace(/^ {0,3}#{1,6} +/gm, '')
    .replace(/(\*\*|__|~~|```|`)(?=\S)([^\n]{1,1000}?)(?<=\S)\1/g, '$2')
    .replace(/(?<![\p{L}\p{N}*_~])([*_~])(?=\S)([^*_~\n]{1,1000})(?<=\S)\1(?![\p{L}\p{N}*_~])/gu, '$2')
    .replace(/&(lt|gt|amp|quot|apos|#39|nbsp);/g, (_, name) => entities[name]!)
}

const linked = (label: string, address: string): string =>
  label.trim() === '' || label === address || label === address.replace(/^mailto:/, '')
    ? address
    : `${label} (${address})`
