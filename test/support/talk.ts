/** A session whose user has written, and files to send to that user. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { MediaContent } from '../../src/model/message.ts'
import { type TestGateway, withGateway } from './gateway.ts'

export const remote = { local: false }
export const streamOf = (bytes: Uint8Array) => new Blob([new Uint8Array(bytes)]).stream()

export async function withTalk(options: Parameters<typeof withGateway>[0] = {}): Promise<TestGateway> {
  const t = await withGateway(options)
  const { user_id } = t.bots.get('default')!
  await t.sandbox.say('hi')
  await t.until('context', async () => (await t.other.contexts.of('default')).get(user_id)?.token)
  await mkdir(join(t.mediaRoot, 'in'), { recursive: true })
  return t
}

export const send = (
  t: TestGateway,
  media: MediaContent | MediaContent[],
  call: object = remote,
  text?: string,
) => t.send({ media: [media].flat(), text }, call)

/** What the user sees of the last item. */
export async function seen(t: TestGateway) {
  const item = (await t.sandbox.messages({ from: 'bot' })).at(-1)!.items[0]!
  return { ...item, bytes: await t.sandbox.mediaBytes(item.media_id!) }
}

export const used = async (t: TestGateway) => (await t.right())!.used
