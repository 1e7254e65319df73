/** Events without WeChat, and a stream that is cut again and again while they come. */
import { silentLog } from '../../src/platform/log.ts'
import { openStorage } from '../../src/storage/sqlite/open.ts'
import { insert, message } from '../storage/support.ts'
import { eventSource } from '../support/event-source.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'
import { isOnPostgres, openSharedStorage } from '../support/shared-store.ts'

/** The log as another process writes it: messages without WeChat. */
export async function writer(t: TestGateway) {
  const options = { dir: t.dir, clock: t.clock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  const storage = isOnPostgres ? await openSharedStorage(t.dir, t.clock) : await openStorage(options)
  return {
    store: storage.store,
    say(text: string, from_user = 'u@im.wechat', session = 'default', bot = 'b') {
      const raw = JSON.stringify({ item_list: [{ type: 1, text_item: { text } }] })
      return insert({ storage }, [message(text, { from_user, raw })], session, bot)
    },
    [Symbol.asyncDispose]: () => storage.close(),
  }
}

/** Follows the events that are written meanwhile over so many connections, each cut after a few of them. */
export async function cutAndResume(cuts: number) {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  let over = false
  const written: string[] = []
  let lastId = await t.gateway.events.getHead()
  const writing = (async () => {
    for (let nth = 0; !over; nth++) {
      const texts = Array.from({ length: 1 + (nth % 3) }, (_, one) => `${nth}.${one}`)
      for (const text of texts) await log.say(text)
      written.push(...texts)
      await new Promise(resolve => setTimeout(resolve, 4))
    }
  })()
  const seen: string[] = []
  for (let nth = 0; nth < cuts; nth++) {
    await using stream = await eventSource(`${rest.url}/events`, { 'last-event-id': lastId })
    for (let left = nth % 7; left >= 0; left--) {
      const frame = await stream.next()
      if (!frame) break
      seen.push(frame.data.data.text)
      lastId = frame.id!
    }
  }
  over = true
  await writing
  await using last = await eventSource(`${rest.url}/events`, { 'last-event-id': lastId })
  while (seen.length < written.length && seen.at(-1) !== written.at(-1))
    seen.push((await last.next())!.data.data.text)
  const known = new Set(seen)
  return {
    cuts,
    events: written.length,
    missing: written.filter(text => !known.has(text)).length,
    repeated: seen.length - known.size,
    inOrder: JSON.stringify(seen) === JSON.stringify(written),
  }
}
