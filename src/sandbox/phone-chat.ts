/** A conversation as one user reads it on the phone, in plain lines: for terminals. */
import { type SeenItem, type SeenMessage, seenMessages } from './phone-view.ts'
import type { World } from './world.ts'

/**
 * Oldest first, a line per item, `<name>: <text>` or `<name>: [image chart.png, 628 bytes]`; what WeChat took and does
 * not show says so. Ends with a line while the bot is typing.
 *
 * @throws SvcError `not_found` for a user who does not exist
 */
export function chatText(world: World, options: { user?: string; limit: number }): string {
  const { core, people } = world
  const user = people.named(options.user, 'user')
  const lines = seenMessages(world, { user: user.id, limit: options.limit }).flatMap(message => {
    const who = message.from === 'bot' ? 'bot' : user.name
    return message.items.map(item => `${who}: ${quoted(message)}${spoken(item)}${hidden(message)}`)
  })
  if (people.peersOf(user.id).some(peer => peer.typing_until > core.now())) lines.push('bot is typing …')
  return lines.map(line => `${line}\n`).join('')
}

const quoted = ({ quote }: SeenMessage) => (quote ? `[on “${quote.text}”] ` : '')
const hidden = ({ shown, why }: SeenMessage) => (shown ? '' : ` (not shown${why ? `: ${why}` : ''})`)

function spoken(item: SeenItem): string {
  if (item.text !== undefined) return item.text
  const facts = [item.size === undefined ? '' : `${item.size} bytes`, item.transcript ?? '']
  return `[${[[item.kind, item.file_name].filter(Boolean).join(' '), ...facts].filter(Boolean).join(', ')}]`
}
