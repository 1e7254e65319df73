/** Sessions whose users have written, and files to send to them. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { MediaContent } from '../../src/model/message.ts'
import { type TestGateway, withGateway } from './gateway.ts'

export const remote = { local: false }
export const streamOf = (bytes: Uint8Array) => new Blob([new Uint8Array(bytes)]).stream()

export async function withTalk(options: Parameters<typeof withGateway>[0] = {}): Promise<TestGateway> {
  const t = await withGateway(options)
  for (const [name, { bot_id, user_id }] of t.bots) {
    await t.sandbox.say('hi', { to: bot_id, from: user_id })
    await t.until('context', async () => (await t.other.contexts.find(name, user_id))?.token)
  }
  await mkdir(join(t.mediaRoot, 'in'), { recursive: true })
  return t
}

export const send = (
  t: TestGateway,
  media: MediaContent | MediaContent[],
  call: object = remote,
  text?: string,
) => t.send({ media: [media].flat(), text }, call)

/** Returns the last message's item as the user sees it. */
export async function seen(t: TestGateway) {
  const item = (await t.sandbox.messages({ from: 'bot' })).at(-1)!.items[0]!
  return { ...item, bytes: await t.sandbox.mediaBytes(item.media_id!) }
}

export const used = async (t: TestGateway) => (await t.right())!.used
