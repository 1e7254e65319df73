import { expect, test } from 'bun:test'
import { failure } from '../support/failure.ts'
import { withLibrary } from '../support/library.ts'

test('a send to a closed window waits, is listed, cancelled, and goes out when the user writes', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  const to = t.bots.get('default')!.user_id
  await svc.runBackground()
  const later = String((await svc.send({ to, text: 'later', when_closed: 'queue' })).outbox_id)
  const never = String((await svc.send({ to, text: 'never', when_closed: 'queue' })).outbox_id)
  expect((await svc.outbox.list()).map(({ outbox_id }) => outbox_id)).toEqual([later, never])
  expect(await svc.outbox.list({ session: 'default', user_id: 'somebody@else' })).toEqual([])
  expect(await svc.outbox.cancel(never)).toMatchObject({ success: true, cancelled: 1 })
  expect(await failure(svc.outbox.approve(later))).toMatchObject({ code: 'not_found' })

  await t.sandbox.say('here I am')
  await t.until('nothing waits', async () => (await svc.outbox.list()).length === 0)
  expect(await svc.outbox.get(later)).toMatchObject({ to_user: to, parts: [{ status: 'accepted' }] })
  await svc.close()
  expect(await failure(svc.outbox.list())).toMatchObject({ code: 'shutting_down' })
})

test('users are listed with what may be answered, and named', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  const user_id = t.bots.get('default')!.user_id
  expect(await failure(svc.nameUser(user_id, 'Mum'))).toMatchObject({ code: 'not_found' })
  await svc.runBackground()
  await t.sandbox.say('hello')
  await t.until('listed', async () => (await svc.users()).length === 1)
  expect(await svc.nameUser(user_id, 'Mum')).toMatchObject({ session: 'default', user_id, name: 'Mum' })
  expect(await svc.users({ session: 'default', user_id: 'mum' })).toMatchObject([
    { session: 'default', user_id, name: 'Mum', remaining: 10, window_expires_at: expect.any(Number) },
  ])
  expect(await svc.send({ to: 'Mum', text: 'hi' })).toMatchObject({ success: true })
  expect((await svc.history()).messages).toMatchObject([{ user_name: 'Mum' }, { user_name: 'Mum' }])
  expect(await svc.nameUser('Mum', '', { session: 'default' })).not.toHaveProperty('name')
})

test('without a store nothing can wait: said at once', async () => {
  await using t = await withLibrary()
  const svc = await t.open()
  expect(
    await failure(svc.send({ to: t.bots.get('default')!.user_id, text: 'later', when_closed: 'queue' })),
  ).toMatchObject({ code: 'invalid_arguments', field: 'when_closed' })
})

test('methods take what their operations place, by type and when they run', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  const wrong = async (call: Promise<unknown>): Promise<unknown> => Object(await failure(call)).code
  // @ts-expect-error an id is a text
  expect(await wrong(svc.webhooks.pause(1))).toBe('invalid_arguments')
  // @ts-expect-error it is needed
  expect(await wrong(svc.webhooks.pause())).toBe('invalid_arguments')
  // @ts-expect-error from where?
  expect(await wrong(svc.webhooks.replay('wh_1'))).toBe('invalid_arguments')
  // @ts-expect-error no such filter
  expect(await wrong(svc.outbox.list({ nope: 1 }))).toBe('invalid_arguments')
  expect(await wrong(svc.webhooks.replay('wh_1', { from: 0, dry_run: true }))).toBe('not_found')
  expect(await svc.webhooks.list()).toEqual([])
})
