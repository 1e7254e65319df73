import { describe, expect, test } from 'bun:test'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { errorCodeOf, readBytes, readText } from '../../src/platform/files.ts'
import { reasonOf } from '../../src/platform/system-error.ts'
import { svc } from '../support/command.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { given } from '../support/given.ts'
import { type Hosted, hosted } from './support/hosted.ts'
import { cursorsIn } from './support/log-file.ts'
import { runOnce, until } from './support/program.ts'
import { openSite, type Site } from './support/upstream.ts'

const it = given(openSite)

const garbage = [
  { what: 'empty', text: '' },
  { what: 'cut in the middle', text: '{"bot_id":"b@im.bot","tok' },
  { what: 'zeros, as after a power cut', text: '\0'.repeat(300) },
  { what: 'JSON, but a list', text: '[]' },
  { what: 'JSON, but null', text: 'null' },
]

const asides = (site: Site, name: string) =>
  readdirSync(join(site.dir, 's')).filter(file => file.startsWith(`${name}.corrupt-`))

/** A second session, to see that it goes on. */
async function withOther(site: Site) {
  const user = await site.sandbox.addUser('Other')
  const bot = site.sandbox.bot(user)
  await site.connect('other', bot)
  return { say: (text: string) => site.sandbox.say(text, { from: user, to: bot.bot_id }) }
}

const statusOf = async (program: Hosted, name: string): Promise<string> => {
  const { body } = await program.call('sessions')
  return body.find((session: { name: string }) => session.name === name)?.status
}

describe('token.json', () => {
  for (const { what, text } of garbage) {
    it(`${what}, at the start: set aside and reported, the other session works`, async site => {
      const other = await withOther(site)
      writeFileSync(join(site.dir, 's/token.json'), text)
      await using service = await hosted(site)
      await other.say('works')
      expect(await site.stored(1)).toEqual(['works'])
      expect(await statusOf(service, 's')).toBe('disconnected')
      expect(await statusOf(service, 'other')).toBe('connected')
      expect((await service.get('/healthz')).body).toMatchObject({ status: 'degraded' })
      const aside = await until('it is set aside', 30_000, () => asides(site, 'token.json')[0])
      expect(readFileSync(join(site.dir, 's', aside), 'utf8')).toBe(text)
      await until('it is told', 30_000, () => / ERROR state: .* session=s aside=/.test(service.log()))
    })
  }

  it('while running: the other session works, a restored file is polled again from its cursor, nothing is lost', async site => {
    const other = await withOther(site)
    await using service = await hosted(site)
    await site.heard('one')
    const path = join(site.dir, 's/token.json')
    await until('the cursor moves', 30_000, () => cursorsIn(site.dir).get(site.bot) || undefined)
    const good = readFileSync(path, 'utf8')
    writeFileSync(path, '{"half')
    const statusIs = async (status: string) => (await statusOf(service, 's')) === status
    await service.gateway.hurry(until('it is noticed', 30_000, () => statusIs('disconnected')))
    await site.say('two')
    await other.say('works')
    await until('the other one receives', 30_000, () => site.texts().includes('works'))
    const isAside = () => asides(site, 'token.json').length === 1
    await service.gateway.hurry(until('it is set aside', 30_000, isAside))
    writeFileSync(path, good)
    await service.gateway.hurry(until('all are there', 30_000, () => site.texts().includes('two')))
    expect(site.texts().sort()).toEqual(['one', 'two', 'works'])
    expect(await statusOf(service, 's')).toBe('connected')
  })
})

describe('contexts.json', () => {
  for (const { what, text } of garbage) {
    it(`${what}, at the start: set aside by the next message, and the user can be answered again`, async site => {
      const path = join(site.dir, 's/contexts.json')
      writeFileSync(path, text)
      await using service = await hosted(site)
      await site.heard('hello')
      await until('it is whole', 30_000, () => asides(site, 'contexts.json').length === 1)
      const answer = await service.call('send', { to: site.user, text: 'hi' })
      expect(answer.body).toMatchObject({ status: 'accepted', remaining: 9 })
      expect(readFileSync(join(site.dir, 's', asides(site, 'contexts.json')[0]!), 'utf8')).toBe(text)
      // The file is written after the message was received.
      await until('the file is written', 30_000, () => existsSync(path))
      expect(JSON.parse(readFileSync(path, 'utf8'))[site.user].token).toBeString()
    })
  }

  it('while running: a send does without it, the next message sets it aside and mends it', async site => {
    await using service = await hosted(site)
    await site.heard('one')
    const path = join(site.dir, 's/contexts.json')
    await until('it is there', 30_000, () => statSync(path, { throwIfNoEntry: false }))
    writeFileSync(path, '{"half')
    const answer = await service.call('send', { to: site.user, text: 'blind' })
    expect([200, 409, 502]).toContain(answer.status)
    await site.say('two')
    expect(await site.stored(2)).toEqual(['one', 'two'])
    await until(
      'it is set aside, and another one is there',
      30_000,
      () => asides(site, 'contexts.json').length === 1 && statSync(path, { throwIfNoEntry: false }),
    )
    await until('it is mended', 30_000, () => JSON.parse(readFileSync(path, 'utf8'))[site.user]?.token)
    expect((await service.call('send', { to: site.user, text: 'hi' })).body).toMatchObject({
      status: 'accepted',
    })
  })
})

describe('messages.db', () => {
  const path = (site: Site) => join(site.dir, 'messages.db')
  /** A service has stored one message and ended, and its file is spoiled since. */
  async function spoiledAfterOne(site: Site, spoil: (file: string) => void) {
    const service = await hosted(site)
    await site.heard('one')
    await until('the cursor moves', 30_000, () => cursorsIn(site.dir).get(site.bot) || undefined)
    await service.stop()
    for (const end of ['-wal', '-shm']) rmSync(path(site) + end, { force: true })
    spoil(path(site))
  }
  const starts = [
    {
      what: 'no database',
      spoil: (file: string) => writeFileSync(file, 'this is not a database '.repeat(500)),
    },
    { what: 'cut in the middle', spoil: (file: string) => truncateSync(file, 6000) },
    { what: 'with a first page of zeros', spoil: (file: string) => overwrite(file, 0, Buffer.alloc(4096)) },
  ]
  for (const { what, spoil } of starts) {
    it(`${what}, at the start: refused, the file left as it is; moved away, all begins anew`, async site => {
      await spoiledAfterOne(site, spoil)
      const before = readFileSync(path(site))
      const refused = await failure(hosted(site))
      expect(refused).toMatchObject({ code: 'store_unavailable', hint: expect.any(String) })
      expect((refused as Error).message).toContain('messages.db')
      expect(readFileSync(path(site)).equals(before)).toBe(true)
      renameSync(path(site), `${path(site)}.bad`)
      for (const end of ['-wal', '-shm']) rmSync(path(site) + end, { force: true })
      await using _anew = await hosted(site)
      await site.say('two')
      expect(await site.stored(1)).toEqual(['two'])
    })
  }

  it('not to be opened: one clear line of the program, exit status 1', async site => {
    await spoiledAfterOne(site, starts[1]!.spoil)
    const program = site.launch()
    expect(await program.ready).toBe(false)
    expect(await program.exited).toBe(1)
    expect(program.log()).toContain('messages.db')
    expect(program.log()).not.toContain('bug in svc')
    expect(program.log()).not.toMatch(/^ +at /m)
  })

  it('removed while running: nothing more is taken into the lost file, the cursor stays, a restart brings it all', async site => {
    await using service = await hosted(site)
    await site.heard('one')
    const cursor = await until(
      'the cursor moves',
      30_000,
      () => cursorsIn(site.dir).get(site.bot) || undefined,
    )
    for (const end of ['', '-wal', '-shm']) rmSync(path(site) + end)
    await site.say('two')
    const isTold = () => service.log().includes('removed or replaced')
    await service.gateway.hurry(until('it is told', 30_000, isTold))
    expect(await service.call('send', { to: site.user, text: 'hi' })).toMatchObject({
      status: 503,
      body: { code: 'store_unavailable' },
    })
    expect((await service.get('/healthz')).body).toMatchObject({ status: 'degraded', store: 'unavailable' })
    expect(cursorsIn(site.dir).get(site.bot)).toBe(cursor)
    await service.stop()
    await using _anew = await hosted(site)
    expect(await site.stored(1)).toEqual(['two'])
  })

  it('spoiled in its pages while running: calls say store_unavailable, nothing crashes, the cursor stays behind', async site => {
    await using service = await hosted(site)
    // More than a process keeps of it in memory.
    await site.sandbox.bulk(200, `{n} ${'x'.repeat(100_000)}`, site.bot)
    await site.stored(200)
    // Only what stands when all of it was taken in tells whether it moved later: the backlog comes in several batches.
    await until('the poll is quiet', 30_000, () => site.sandbox.world.core.stats.polls_now > 0)
    const cursor = await until(
      'the cursor moved',
      30_000,
      () => cursorsIn(site.dir).get(site.bot) || undefined,
    )
    for (const end of ['-wal', '']) {
      const size = statSync(path(site) + end).size
      overwrite(path(site) + end, 0, Buffer.alloc(size, 0x5a))
    }
    await site.say('after')
    await until(
      'it is stored or not',
      30_000,
      () => service.log().includes('batch not committed') || cursorsIn(site.dir).get(site.bot) !== cursor,
    )
    // A file that is lost is noticed within a second.
    await service.gateway.pass(1500)
    const answers = [
      await service.call('history', { text_contains: 'x' }),
      await service.call('recv', { timeout: 0 }),
      await service.call('send', { to: site.user, text: 'hi' }),
    ]
    for (const { status, body } of answers) {
      if (status !== 200) expect(body).toMatchObject({ code: 'store_unavailable', status: 503 })
    }
    expect(answers.some(({ status }) => status === 503)).toBe(true)
    expect((await service.get('/healthz')).body).toMatchObject({ status: 'degraded', store: 'unavailable' })
    expect(service.log()).not.toContain('poll loop failed')
    // Moved away and started again, as the hint says: what was not stored comes now.
    await service.stop()
    const stood = cursorsIn(site.dir).get(site.bot)!
    for (const end of ['', '-wal', '-shm']) rmSync(path(site) + end, { force: true })
    await using _anew = await hosted(site)
    await site.say('later')
    const expected = stood === cursor ? ['after', 'later'] : ['later']
    await until('what was not stored', 30_000, () => expected.every(text => site.texts().includes(text)))
  })
})

describe.skipIf(process.platform === 'win32')('something else in the place of a file', () => {
  for (const name of ['messages.db', 's/token.json', '.default_session', '.data.lock', '.poll.lock']) {
    it(`a pipe as ${name}: named within a moment, and left where it is`, async site => {
      const path = join(site.dir, name)
      rmSync(path, { force: true })
      await Bun.$`mkfifo ${path}`
      // In a process of its own: one that waits for the pipe is killed.
      const { stdout, stderr } = await runOnce(['sessions', '-d', site.dir])
      expect(stdout + stderr).toContain(basename(name))
      expect(stderr).not.toContain('bug in svc')
      expect(statSync(path).isFIFO()).toBe(true)
      expect(asides(site, 'token.json')).toEqual([])
    })
  }

  test('a folder, a device and a socket are refused as what they are', async () => {
    const dir = folderOfTest()
    mkdirSync(join(dir, 'folder'))
    using _server = Bun.listen({ unix: join(dir, 'socket'), socket: { data() {} } })
    for (const path of [join(dir, 'folder'), join(dir, 'socket'), '/dev/zero']) {
      const error = await readText(path).catch((error: unknown) => error)
      expect(reasonOf(error)).not.toBe(errorCodeOf(error)!)
      expect(() => readBytes(path)).toThrow()
      const { status, stderr } = await svc(['openapi', '--port', '0', '--token-file', path, '-d', dir], {
        home: dir,
      })
      expect([status, stderr.includes(path)]).toEqual([2, true])
    }
  })
})

function overwrite(path: string, at: number, bytes: Uint8Array): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, at)
  closeSync(file)
}
