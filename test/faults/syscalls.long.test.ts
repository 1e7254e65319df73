import { expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ended } from '../support/ended.ts'
import { svcProgram } from '../support/svc-program.ts'
import { canTrace } from '../support/tracing.ts'
import { cursorsIn, sessionFiles, usedIn } from './support/log-file.ts'
import { type Program, until } from './support/program.ts'
import { openSite, type Site } from './support/upstream.ts'

/** What changes the disk, and what leaves on a socket. */
const calls = 'pwrite64,write,fdatasync,fsync,rename,renameat,renameat2,unlink,sendto'
/** A storm of one: no step has more. */
const atMost = 150

/** Lets the process die on entering its `nth` of these calls from now on, by thread. Resolves when that is armed. */
async function armed(program: Program, nth: number, on = calls): Promise<{ release(): Promise<void> }> {
  const inject = `inject=${on}:signal=SIGKILL:when=${nth}`
  const tracer = Bun.spawn(
    ['strace', '-f', '-o', '/dev/null', '-e', `trace=${on}`, '-e', inject, '-p', String(program.pid)],
    { stderr: 'pipe' },
  )
  const reader = tracer.stderr.getReader()
  let told = ''
  while (!told.includes('attached')) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`strace: ${told}`)
    told += new TextDecoder().decode(value)
  }
  void (async () => {
    while (!(await reader.read()).done);
  })()
  return {
    async release() {
      tracer.kill('SIGINT')
      await tracer.exited
    },
  }
}

/** Kills a service at the first, second, third … of its system calls during `act`, until it survives. */
async function sweep(
  site: Site,
  act: (program: Program, round: number) => Promise<unknown>,
  check: (round: number) => Promise<void>,
): Promise<number> {
  for (let nth = 1; nth <= atMost; nth += nth < 12 ? 1 : 2) {
    const polls = site.requests('getupdates')
    const program = await site.start({ args: ['--log-level', 'ERROR'] })
    await site.asked('getupdates', polls + 1)
    // What was said before has all arrived: a window that opens in the middle would begin a new count of answers.
    const said = await site.sandbox.messages({ from: 'user', limit: 1000 })
    const last = Math.max(0, ...said.map(({ seq }) => seq))
    const heard = () => cursorsIn(site.dir).get(site.bot)! >= last
    await until('it is polled', 30_000, () => site.sandbox.world.core.stats.polls_now > 0 && heard())
    const trap = await armed(program, nth)
    const done = act(program, nth).then(() => 'done')
    const died = await Promise.race([program.exited.then(() => true), done.then(() => false)])
    await trap.release()
    await program.kill('SIGKILL')
    await done.catch(() => {})
    await check(nth)
    if (!died) return nth
  }
  throw new Error(`it never survived ${atMost} system calls`)
}

test.skipIf(!canTrace)(
  'killed at each system call of receiving, one after the other: every message once, the cursor never ahead, every file whole (skipped without strace)',
  async () => {
    await using site = await openSite()
    const said: string[] = []
    const survived = await sweep(
      site,
      async (program, round) => {
        const texts = [`a${round}`, `b${round}`]
        said.push(...texts)
        const before = cursorsIn(site.dir).get(site.bot)!
        await Promise.race([
          program.exited,
          (async () => {
            await site.say(...texts)
            await until('cursor moved', 30_000, () => cursorsIn(site.dir).get(site.bot)! >= before + 2)
          })(),
        ])
      },
      async () => {
        const seqs = (await site.sandbox.messages({ from: 'user', limit: 100_000 })).map(
          ({ seq, items }) => ({ seq, text: items[0]!.text! }),
        )
        const cursor = cursorsIn(site.dir).get(site.bot)!
        const stored = site.texts()
        expect(new Set(stored).size).toBe(stored.length)
        expect(seqs.filter(({ seq, text }) => seq <= cursor && !stored.includes(text))).toEqual([])
        for (const path of sessionFiles(site.dir, 'contexts.json')) JSON.parse(readFileSync(path, 'utf8'))
        using log = site.log()
        expect(log.integrity()).toBe('ok')
      },
    )
    await site.start()
    expect((await site.stored(said.length)).sort()).toEqual(said.sort())
    expect(survived).toBeGreaterThan(10)
    console.log(`survived at the ${survived}. system call; ${said.length} messages`)
  },
  300_000,
)

test.skipIf(!canTrace)(
  'killed at each system call of a send, one after the other: nobody sees it twice, what was seen has a row, no quota is lost beyond it (skipped without strace)',
  async () => {
    await using site = await openSite()
    const survived = await sweep(
      site,
      (program, round) =>
        program.call('send', { to: site.user, text: `answer ${round}` }).catch(() => program.exited),
      async round => {
        const seen = (await site.sandbox.messages({ from: 'bot', limit: 1000 })).map(
          one => one.items[0]!.text!,
        )
        expect(seen.filter(text => text === `answer ${round}`).length).toBeLessThanOrEqual(1)
        using log = site.log()
        const rows = log.rows().filter(row => row.sent)
        expect(rows.filter(row => row.text === `answer ${round}`).length).toBeLessThanOrEqual(1)
        for (const text of seen) expect(rows.map(row => row.text)).toContain(text)
        for (const row of rows) {
          expect(['sending', 'unknown', 'accepted']).toContain(row.status!)
          if (row.status === 'accepted') expect(seen).toContain(row.text)
        }
        for (const path of [
          ...sessionFiles(site.dir, 'contexts.json'),
          ...sessionFiles(site.dir, 'token.json'),
        ]) {
          JSON.parse(readFileSync(path, 'utf8'))
        }
        expect(log.integrity()).toBe('ok')
        const used = usedIn(site.dir, site.user)
        expect(used).toBeLessThanOrEqual(round)
        expect(used).toBeGreaterThanOrEqual(seen.includes(`answer ${round}`) ? 1 : 0)
        // The user writes: the quota of the next round is fresh.
        await site.say(`next ${round}`)
      },
    )
    expect(survived).toBeGreaterThan(10)
    console.log(`survived at the ${survived}. system call`)
    const program = await site.start()
    await until('nothing is sending', 30_000, () => {
      using log = site.log()
      return log.rows().every(row => row.status !== 'sending')
    })
    expect((await program.call('logout', { session_name: 's' })).body).toMatchObject({ success: true })
    expect(existsSync(join(site.dir, 's'))).toBe(false)
  },
  300_000,
)

for (const { call, error } of [
  { call: 'flock', error: 'ENOLCK' },
  { call: 'flock', error: 'EOPNOTSUPP' },
  { call: 'fcntl', error: 'ENOLCK' },
  { call: 'fcntl', error: 'ENOSYS' },
]) {
  test.skipIf(!canTrace)(
    `a file system whose ${call} answers ${error}: commands end at once and name the directory, not a process (skipped without strace)`,
    async () => {
      await using site = await openSite()
      const first = await site.start()
      await first.kill('SIGTERM')
      const inject = `inject=${call}:error=${error}`
      const traced = ['strace', '-f', '-o', '/dev/null', '-e', `trace=${call}`, '-e', inject]
      for (const words of [['openapi', '--port', '0'], ['history']]) {
        const { status, stderr } = await ended([...traced, ...svcProgram, ...words, '-d', site.dir], {
          cwd: '/',
          env: { PATH: process.env.PATH ?? '', HOME: site.dir },
        })
        expect(status).toBe(1)
        expect(stderr).toMatch(/^error: .*locks/m)
        expect(stderr).toContain(site.dir)
        expect(stderr).not.toMatch(/another process|hangs/)
      }
    },
    120_000,
  )
}

const renames = 'rename,renameat,renameat2'
for (const { file, act } of [
  // A message renews the context token first, and then moves the cursor.
  { file: 'contexts.json', act: (site: Site) => site.say('one') },
  // A message of the bot's side moves the cursor and nothing else.
  {
    file: 'token.json',
    act: (site: Site) =>
      site.sandbox.raw({
        ...{ message_id: 1, from_user_id: site.user, to_user_id: site.bot, message_type: 2 },
        item_list: [{ type: 1, text_item: { text: 'own' } }],
      }),
  },
]) {
  test.skipIf(!canTrace)(
    `killed between write and rename of ${file}: the old files stand whole, the new one beside it is nobody's, and the messages are there once (skipped without strace)`,
    async () => {
      await using site = await openSite()
      const first = await site.start()
      await site.heard('zero')
      const before = await until(
        'the cursor moves',
        30_000,
        () => cursorsIn(site.dir).get(site.bot) || undefined,
      )
      await until('it is polled', 30_000, () => site.sandbox.world.core.stats.polls_now > 0)
      const files = ['contexts.json', 'token.json'].map(name => join(site.dir, 's', name))
      const whole = files.map(path => readFileSync(path, 'utf8'))
      const trap = await armed(first, 1, renames)
      await act(site)
      await first.exited
      await trap.release()
      expect(files.map(path => readFileSync(path, 'utf8'))).toEqual(whole)
      const left = readdirSync(join(site.dir, 's')).filter(name => name.endsWith('.tmp'))
      expect(left.some(name => name.startsWith(file))).toBe(true)
      const second = await site.start()
      await until('the cursor moves', 30_000, () => cursorsIn(site.dir).get(site.bot)! > before)
      await site.say('last')
      const texts = ['zero', ...(file === 'contexts.json' ? ['one'] : []), 'last']
      expect(await site.stored(texts.length)).toEqual(texts)
      expect((await second.call('send', { to: site.user, text: 'hi' })).body).toMatchObject({
        status: 'accepted',
      })
    },
  )
}
