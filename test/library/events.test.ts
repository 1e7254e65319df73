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
  await t.until('both are told', async () => {
    if (heard.length === 0) await t.sandbox.say('hi')
    else if (!heard.some(({ type }) => type === 'message.status')) {
      const [message] = (await svc.history({ direction: 'received', limit: 1 })).messages
      await svc.send({ to: message!.from_user, text: 'hello' })
    } else return true
  })
  const [first] = heard
  for await (const event of svc.events({ after: first!.id, types, signal: AbortSignal.timeout(30_000) })) {
    expect(event).toEqual(heard[1] as typeof event)
    break
  }
  await svc.close()
  await listening
})
