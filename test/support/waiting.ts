/** Helpers for tests of sends that wait in the outbox. */

import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Message } from '../../src/model/message.ts'
import { owner } from '../../src/model/principal.ts'
import { rowsIn, type TestGateway, withGateway } from './gateway.ts'

export const hourMs = 60 * 60_000
export const dayMs = 24 * hourMs

/** Returns the sent and waiting messages, oldest first. */
export const sent = async (t: TestGateway): Promise<Message[]> =>
  (await t.gateway.history.page({ direction: 'sent', limit: 200, offset: 0 })).messages.reverse()
export const states = async (t: TestGateway) => (await sent(t)).map(({ text, status }) => [text, status])
/** Returns what the users see: the first item of each message. */
export const seen = async (t: TestGateway) =>
  (await t.sandbox.messages({ from: 'bot', limit: 200 })).map(({ items }) => items[0]!.text ?? items[0]!.kind)
/** Returns the names of the queued files. */
export const keptFiles = async (t: TestGateway) => {
  const folder = join(t.mediaRoot, 'outbox')
  return existsSync(folder) ? readdir(folder) : []
}

/** Returns who made, approved and ended each send, as its row says. */
export const makers = async (t: TestGateway): Promise<Record<string, string>[]> => {
  const rows = await rowsIn(t.dir, 'SELECT made_by, approved_by, ended_by FROM outbox ORDER BY id')
  return rows.map(row => Object.fromEntries(Object.entries(row).filter(([, who]) => who)))
}

/** Lets time pass for svc and for the sandbox. */
export async function pass(t: TestGateway, ms: number): Promise<void> {
  t.clock.advance(ms)
  await t.sandbox.advance(ms)
}

/** Sends a message from the user, and waits until the gateway has it. */
export async function write(t: TestGateway, text = 'hi'): Promise<void> {
  const before = (await t.right())?.received_at ?? 0
  await pass(t, 10)
  await t.sandbox.say(text)
  await t.until('the user has written', async () => ((await t.right())?.received_at ?? 0) > before)
}

export const nothingWaits = (t: TestGateway) =>
  t.soon('nothing waits', async () => (await t.gateway.outbox.list(owner)).length === 0)

/** Opens a gateway whose user has written, and whose answer window has closed since. */
export async function withClosed(options: Parameters<typeof withGateway>[0] = {}): Promise<TestGateway> {
  const t = await withGateway(options)
  await write(t)
  // A day that passes at once triggers the maintenance, which removes old files. A file of the test shows
  // that it has run.
  await mkdir(join(t.mediaRoot, 'outbox'), { recursive: true })
  await writeFile(join(t.mediaRoot, 'outbox', `${crypto.randomUUID()}.queued`), '')
  await pass(t, dayMs + 1000)
  await t.until('the maintenance has run', async () => (await keptFiles(t)).length === 0)
  return t
}
