import { expect, test } from 'bun:test'
import { withLibrary } from '../support/library.ts'

test('everything that happens is an iteration, which goes on after an id', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  const heard: { id: string; type: string }[] = []
  const types = ['message.received', 'message.status'] as const
  const listening = (async () => {
    for await (const event of svc.events({ types })) heard.push(event)
  })()
  await svc.runBackground()
  // The first event is the next one after the iteration has begun.
  await t.until('a message is told', async () => heard.length > 0 || void (await t.sandbox.say('hi')))
  await svc.send({ to: t.bots.get('default')!.user_id, text: 'hello' })
  await t.until('what was sent is told', () => heard.some(({ type }) => type === 'message.status'))
  const [first] = heard
  for await (const event of svc.events({ after: first!.id, types, signal: AbortSignal.timeout(30_000) })) {
    expect(event).toEqual(heard[1] as typeof event)
    break
  }
  await svc.close()
  await listening
})
