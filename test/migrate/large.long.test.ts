/** A hundred thousand messages, and a move that is killed on its way. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type Folders,
  fingerprint,
  folders,
  json,
  move,
  seconds,
  weiLinkLog,
  weiLinkSession,
} from './profile.ts'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const bots = ['aaaaaaaaaaaa@im.bot', 'bbbbbbbbbbbb@im.bot', 'cccccccccccc@im.bot']
const start = Date.now() - 1_000_000

/** Three sessions, and so many messages of them, every fifth one sent. */
async function fill(from: string, count: number): Promise<void> {
  for (const [i, bot] of bots.entries()) {
    const contexts = { [`o${i}@im.wechat`]: { t: `ctx-${i}`, ts: seconds(start) } }
    await weiLinkSession(from, `会话-${i}`, { bot, cursor: `buf-${i}`, contexts })
  }
  using log = weiLinkLog(from)
  for (let done = 0; done < count; done += 10_000) {
    log.add(
      ...Array.from({ length: Math.min(10_000, count - done) }, (_, i) => {
        const nth = done + i
        const row = {
          bot: bots[nth % 3]!,
          user: `o${nth % 3}@im.wechat`,
          text: `消息 number ${nth}`,
          at: start + nth,
        }
        return nth % 5 === 0
          ? { ...row, sent: true as const }
          : { ...row, message_id: String(7_400_000_000_000_000_000n + BigInt(nth)) }
      }),
    )
  }
}

/** What stands in svc's log: rows, their order, and how many messages they are. */
function counted(into: string): Record<string, unknown> {
  const db = new Database(join(into, 'messages.db'), { readonly: true })
  try {
    return db
      .query<Record<string, unknown>, []>(
        `SELECT count(*) AS rows, count(DISTINCT text) AS texts, sum(sent = 1) AS sent, min(id) AS first, max(id) AS last,
           (SELECT count(*) FROM message a JOIN message b ON b.id = a.id + 1 WHERE b.timestamp < a.timestamp) AS backwards
         FROM message`,
      )
      .get()!
  } finally {
    db.close()
  }
}

const whole = (count: number) => ({
  ...{ rows: count, texts: count, sent: Math.ceil(count / 5), first: 1, last: count, backwards: 0 },
})

test('100,000 messages come over, each once and in the order of time', async () => {
  await using at = await folders()
  await fill(at.from, 100_000)
  const before = fingerprint(at.from)
  const { applied } = await move('weilink', at)
  expect(applied.history).toEqual({ added: 100_000, leftOut: 0 })
  expect(counted(at.into)).toEqual(whole(100_000))
  expect((await move('weilink', at)).applied.history).toEqual({ added: 0, leftOut: 0 })
  expect(counted(at.into)).toEqual(whole(100_000))
  expect(fingerprint(at.from)).toEqual(before)
}, 300_000)

/** Starts the move as a user does, kills it once `reached`, and says whether it was still at work. */
async function killed(at: Pick<Folders, 'root' | 'from' | 'into'>, reached: () => boolean): Promise<boolean> {
  const child = Bun.spawn([process.execPath, main, 'migrate', 'weilink', '--from', at.from, '-d', at.into], {
    ...{ cwd: at.root, env: { PATH: process.env.PATH ?? '', HOME: at.root, TMPDIR: at.root } },
    ...{ stdin: 'ignore', stdout: 'ignore', stderr: 'ignore', timeout: 60_000, killSignal: 'SIGKILL' },
  })
  while (child.exitCode === null && child.signalCode === null && !reached()) await Bun.sleep(1)
  child.kill('SIGKILL')
  await child.exited
  return child.signalCode === 'SIGKILL'
}

const rowsIn = (into: string): number => {
  if (!existsSync(join(into, 'messages.db'))) return 0
  try {
    using db = new Database(join(into, 'messages.db'), { readonly: true })
    return db.query<{ rows: number }, []>('SELECT count(*) AS rows FROM message').get()!.rows
  } catch {
    // Its tables are not there yet, or it is busy.
    return 0
  }
}

test('a move that is killed anywhere is finished by the same move again', async () => {
  const count = 20_000
  await using place = await folders()
  const at = { root: place.root, from: place.from, into: place.into }
  await fill(at.from, count)
  const before = fingerprint(at.from)
  const tokens = () => bots.filter((_, i) => existsSync(join(at.into, `会话-${i}`, 'token.json'))).length
  // In the middle of the history, twice; then between the sessions, where it may be through before the kill comes.
  let middle = false
  // A kill that comes too late says nothing: then it begins in a folder of its own.
  for (let tries = 0; tries < 5 && !middle; tries++) {
    at.into = join(at.root, `svc-${tries}`)
    await killed(at, () => rowsIn(at.into) >= 1000)
    const first = rowsIn(at.into)
    expect(first).toBeGreaterThanOrEqual(1000)
    if (first === count) continue
    expect(tokens()).toBe(0)
    middle = await killed(at, () => rowsIn(at.into) >= first + 2000)
  }
  expect(middle).toBe(true)
  await killed(at, () => tokens() >= 1)
  // The copy of the chats is gone with the process that made it.
  expect(readdirSync(at.root).filter(name => name.startsWith('svc-migrate-'))).toEqual([])
  await move('weilink', at)
  expect(counted(at.into)).toEqual(whole(count))
  for (const [i, bot] of bots.entries()) {
    expect(json(at.into, `会话-${i}`, 'token.json')).toMatchObject({ bot_id: bot, cursor: `buf-${i}` })
    expect(json(at.into, `会话-${i}`, 'contexts.json')).toMatchObject({
      [`o${i}@im.wechat`]: { token: `ctx-${i}` },
    })
  }
  expect(await Bun.file(join(at.into, '.default_session')).text()).toBe('会话-0\n')
  expect(fingerprint(at.from)).toEqual(before)
}, 300_000)

test('a session never appears in svc without its context tokens', async () => {
  await using at = await folders()
  await fill(at.from, 10)
  for (let nth = 0; nth < 3; nth++) {
    const into = join(at.root, `svc-${nth}`)
    await killed({ ...at, into }, () => existsSync(join(into, '会话-0')))
    for (const [i] of bots.entries()) {
      if (existsSync(join(into, `会话-${i}`, 'token.json'))) {
        expect(json(into, `会话-${i}`, 'contexts.json')).toMatchObject({
          [`o${i}@im.wechat`]: { token: `ctx-${i}` },
        })
      }
    }
  }
})
