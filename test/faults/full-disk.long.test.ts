import { afterAll, expect, test } from 'bun:test'
import { readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canMount, smallDisk } from './support/mounts.ts'
import { type Program, runSvc, until } from './support/program.ts'
import { openSite, type Site } from './support/upstream.ts'

const undo: (() => void)[] = []
afterAll(() => {
  for (const step of undo) step()
})

/** What the system and SQLite call it. */
const full = /ENOSPC|SQLITE_FULL/
/** It is told by that name where it was thought of. */
const refused = /^error: .*(ENOSPC|SQLITE_FULL)/m

/** Takes all but `left` bytes of the disk. @returns gives them back */
function fill(dir: string, left: number): () => void {
  const { bavail, bsize } = statfsSync(dir)
  const path = join(dir, `filler-${left}`)
  writeFileSync(path, Buffer.alloc(Math.max(0, bavail * bsize - left)))
  return () => rmSync(path)
}

/** Messages that a cursor on disk covers and the store does not have. */
async function passedOver(site: Site): Promise<string[]> {
  using log = site.log()
  const written = await site.sandbox.messages({ from: 'user', limit: 100_000 })
  return log
    .passedOver(
      written.map(({ items, bot_id, seq, message_id, at }) => ({
        ...{ text: items[0]!.text!, bot: bot_id, seq, messageId: message_id, at },
      })),
    )
    .map(one => one.text)
}

const health = async (program: Program) => (await program.get('/healthz')).body

test.skipIf(!canMount)(
  'a disk that fills up during ingest: the cursor never passes what is not stored, errors are clear, and all heals by itself when space returns (skipped where mounting is forbidden)',
  async () => {
    const disk = smallDisk('32m')
    undo.push(disk.unmount)
    await using site = await openSite({ dir: disk.dir, switches: { batch: 20 } })
    const service = await site.start()
    const people = [site.user]
    for (let i = 0; i < 11; i++) people.push(await site.sandbox.addUser(`person ${i}`))
    for (const from of people) await site.sandbox.say('first', { from, to: site.bot })
    await site.stored(people.length)
    const free = fill(disk.dir, 2_000_000)
    const count = 3000
    await site.sandbox.bulk(count, `${'x'.repeat(1000)} {n}`, site.bot)

    await until('the disk is full', 30_000, async () => (await health(service)).store === 'unavailable')
    const stuckAt = site.texts().length
    expect(stuckAt).toBeLessThan(count)
    expect(await passedOver(site)).toEqual([])
    const polls = site.requests('getupdates')
    const freeRest = fill(disk.dir, 0)
    // Each needs less than a batch, so the log's file may have room for some: those are as durable as any.
    const accepted: string[] = []
    let sent: { status: number; body: { code?: string; status?: string } } | undefined
    for (let n = 0; n < 9 * people.length && sent?.status !== 503; n++) {
      const text = `answer ${n} ${'y'.repeat(16_000)}`
      sent = await service.call('send', { to: people[n % people.length], text })
      if (sent.body.status === 'accepted') accepted.push(text)
    }
    expect(sent).toMatchObject({ status: 503, body: { code: 'store_unavailable' } })
    expect(JSON.stringify(sent?.body)).toMatch(full)
    // What is stored can still be searched.
    expect((await service.call('history', { limit: 1 })).status).toBe(200)
    expect(await health(service)).toMatchObject({ status: 'degraded', store: 'unavailable' })
    await Bun.sleep(3000)
    expect(await passedOver(site)).toEqual([])
    // It does not hammer upstream for what it cannot keep.
    expect(site.requests('getupdates') - polls).toBeLessThanOrEqual(3)

    free()
    freeRest()
    const freedAt = Date.now()
    const texts = await site.stored(count + people.length, 40_000)
    console.log(
      `stuck at ${stuckAt} of ${count}; all stored ${Date.now() - freedAt} ms after space came back`,
    )
    expect(texts.length).toBe(count + people.length)
    expect(new Set(texts).size).toBe(count + 1)
    expect(await passedOver(site)).toEqual([])
    await until('the store works', 30_000, async () => (await health(service)).store === 'ok')
    // The whole disk is smaller than what files leave free for messages.
    expect(await health(service)).toMatchObject({ status: 'degraded', disk: 'low' })
    const refused = await service.call('send', {
      ...{ to: site.user, media: [{ kind: 'file', data: 'AAAA', file_name: 'a' }] },
    })
    expect(refused).toMatchObject({ status: 503, body: { code: 'store_unavailable' } })
    expect((await service.call('send', { to: site.user, text: 'hello again' })).body).toMatchObject({
      status: 'accepted',
    })
    expect((await site.sandbox.messages({ from: 'bot' })).map(one => one.items[0]?.text)).toEqual([
      ...accepted,
      'hello again',
    ])
    const read: string[] = []
    while (read.length < count + people.length) {
      const { status, body } = await service.call('recv', { timeout: 0, limit: 1000 })
      expect(status).toBe(200)
      if (body.length === 0) break
      read.push(...body.map((message: { text: string }) => message.text))
    }
    expect(read.sort()).toEqual(texts.sort())
    for (const name of ['token.json', 'contexts.json'])
      JSON.parse(readFileSync(join(site.dir, 's', name), 'utf8'))
  },
  300_000,
)

test.skipIf(!canMount)(
  'a service killed and started again on a full disk: it says so, and nothing is lost once there is space (skipped where mounting is forbidden)',
  async () => {
    const disk = smallDisk('24m')
    undo.push(disk.unmount)
    await using site = await openSite({ dir: disk.dir, switches: { batch: 20 } })
    const first = await site.start()
    await site.heard('first')
    const free = fill(disk.dir, 1_000_000)
    await site.sandbox.bulk(1500, `${'x'.repeat(1000)} {n}`, site.bot)
    await until('the disk is full', 30_000, async () => (await health(first)).store === 'unavailable')
    await first.kill('SIGKILL')
    writeFileSync(join(disk.dir, 'crumbs'), Buffer.alloc(0))
    const { bavail, bsize } = statfsSync(disk.dir)
    if (bavail > 0) writeFileSync(join(disk.dir, 'crumbs'), Buffer.alloc(bavail * bsize))

    const second = site.launch()
    if (await second.ready) {
      await until('it is told', 30_000, () => full.test(second.log()))
      await second.kill('SIGKILL')
    } else {
      expect(await second.exited).toBe(1)
      expect(second.log()).toMatch(refused)
      console.log(`start on a full disk: ${second.log().trim()}`)
    }
    expect(await passedOver(site)).toEqual([])
    free()
    rmSync(join(disk.dir, 'crumbs'))
    await site.start()
    const texts = await site.stored(1501, 40_000)
    expect(new Set(texts).size).toBe(1501)
    expect(texts.length).toBe(1501)
    using log = site.log()
    expect(log.integrity()).toBe('ok')
  },
  300_000,
)

test.skipIf(!canMount)(
  'a data directory on a disk that is full from the beginning: one clear line, exit status 1 (skipped where mounting is forbidden)',
  async () => {
    const disk = smallDisk('1m')
    undo.push(disk.unmount)
    fill(disk.dir, 0)
    await using program = runSvc(['openapi', '--no-banner', '--port', '0', '-d', join(disk.dir, 'new')])
    expect(await program.ready).toBe(false)
    expect(await program.exited).toBe(1)
    expect(program.log()).toMatch(refused)
    expect(program.log()).not.toContain('    at ')
  },
)
