/** What happens to svc while a program waits in a poll: its token is replaced, or svc is restored from a backup. */
import { expect } from 'bun:test'
import { join } from 'node:path'
import { makeBackup } from '../../src/backup/make.ts'
import { restoreBackup } from '../../src/backup/restore.ts'
import { owner } from '../../src/model/principal.ts'
import { folderOfTest } from '../support/folder.ts'
import { rowsIn, type TestGateway } from '../support/gateway.ts'
import { given, testOfFiles } from '../support/given.ts'
import { until } from '../support/until.ts'
import { withRelay } from './driver.ts'
import { relayProgram } from './protocol.ts'

const it = given(withRelay)
const textsOf = (messages: { item_list: { text_item?: { text: string } }[] }[]) =>
  messages.map(({ item_list }) => item_list[0]?.text_item?.text)

/** Waits until the open poll of the only program has acknowledged every message that is stored. */
const untilPolling = (t: TestGateway) =>
  t.until('it polls, and has acknowledged all', async () => {
    const last = 'SELECT max(id) FROM message WHERE sent = 0'
    const query = `SELECT 1 FROM acknowledged WHERE consumer LIKE '%/relay' AND position = (${last})`
    return (await rowsIn(t.dir, query)).length > 0
  })

it('a token that is replaced in mid-poll: the next one misses nothing and gets nothing twice', async ({
  t,
  add,
  url,
}) => {
  const program = await add('one')
  await t.sandbox.say('a')
  await t.sandbox.media('file', 'the bytes of a file', { name: 'a.txt' })
  const [, { item_list }] = await program.read(2)
  const open = program.post('getupdates', { get_updates_buf: program.cursor })
  await untilPolling(t)
  const { key } = await t.gateway.keys.rotate(program.id, 0, owner)
  const since = t.clock.now()
  await t.sandbox.say('b')
  expect((await t.hurry(open)).body).toMatchObject({ errcode: -14 })
  expect(t.clock.now() - since).toBeGreaterThan(800)
  // What the old token signed ends with it.
  expect((await fetch(item_list[0].file_item.media.full_url)).status).toBe(400)
  const next = relayProgram(url, program.id, key, t.bots.get('default')!.user_id)
  next.cursor = program.cursor
  expect(textsOf(await next.poll())).toEqual(['b'])
  await t.sandbox.say('c')
  expect(textsOf(await next.poll())).toEqual(['c'])
  expect((await next.say('answer')).body.ret).toBe(0)
})

for (const replay of ['always', 'never'] as const)
  testOfFiles(
    `svc is restored in mid-poll, and WeChat repeats what the copy has not: ${replay}`,
    async () => {
      await using lost = await withRelay()
      const { t } = lost
      const program = await lost.add('one')
      await t.sandbox.say('a')
      expect(textsOf(await program.poll())).toEqual(['a'])
      const open = program.poll()
      await untilPolling(t)
      const path = join(folderOfTest(), 'svc.tar')
      const { config, clock } = t
      await makeBackup({ path, config, clock, passphrase: undefined, force: false })
      await t.sandbox.switches({ replay })
      await t.sandbox.say('b')
      expect(textsOf(await open)).toEqual(['b'])
      await t.sandbox.say('c')
      expect(textsOf(await program.poll())).toEqual(['c'])
      const ended = program.post('getupdates', { get_updates_buf: program.cursor })
      await untilPolling(t)
      await t.gateway.close()
      const { body } = await t.hurry(ended)
      expect(body).toMatchObject({ ret: 0, msgs: [] })
      // The program goes on from there.
      program.cursor = body.get_updates_buf

      const basePath = join(folderOfTest(), 'restored')
      const at = { ...config, basePath, mediaRoot: join(basePath, 'media') }
      await restoreBackup({ path, config: at, clock, passphrase: undefined, keepKeys: true })
      await t.sandbox.say('d')
      await using restored = await withRelay({ sandbox: t.sandbox, dir: basePath, sessions: [], clock })
      const next = relayProgram(restored.url, program.id, program.token, t.bots.get('default')!.user_id)
      next.cursor = program.cursor
      await t.sandbox.say('e')
      // Before its row is there, a cursor counts as none, and messages come again.
      await until('svc has read on', 20_000, async () => {
        const rows = await rowsIn(basePath, `SELECT id FROM message WHERE text = 'e'`)
        return rows.length === 1
      })
      // Its position is the third row: "c" again if WeChat repeats it, else "e".
      expect(textsOf(await next.read(2))).toEqual(['d', 'e'])
      const [third] = await rowsIn(basePath, 'SELECT text FROM message WHERE id = 3')
      expect(third).toEqual({ text: replay === 'never' ? 'e' : 'c' })
      await t.sandbox.say('f')
      expect(textsOf(await next.poll())).toEqual(['f'])
      expect((await next.say('answer')).body.ret).toBe(0)
    },
  )
