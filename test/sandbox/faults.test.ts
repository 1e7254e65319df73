import { expect, test } from 'bun:test'
import { faultKinds } from '../support/faults.ts'
import { ilink } from '../support/ilink-client.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { until } from '../support/until.ts'

const bind = (sandbox: TestSandbox) => {
  const bot = sandbox.bot()
  return { ...bot, ...ilink(sandbox.url, bot.token) }
}

test('every kind of fault strikes once and is over', async () => {
  await using sandbox = await withSandbox({ switches: { hold_ms: 1 } })
  const bot = bind(sandbox)
  const { requests } = sandbox.world.core.stats
  const result = async (kind: string) => {
    const before = requests.getupdates ?? 0
    const leaving = new AbortController()
    const answered = bot.poll('', leaving.signal).then(
      answer => `${answer.http} ${answer.text}`,
      (error: Error) => error.name,
    )
    if (kind === 'hang') {
      await until('it is asked', 30_000, () => (requests.getupdates ?? 0) > before)
      // What would be answered is by now: so are others that asked later.
      for (let nth = 0; nth < 3; nth++) await sandbox.phone('GET', 'stats')
      leaving.abort()
    }
    return answered
  }
  const seen: Record<string, string> = {}
  for (const kind of Object.keys(faultKinds) as (keyof typeof faultKinds)[]) {
    await sandbox.fail('getupdates', kind, { delay_ms: 5, code: -7 })
    seen[kind] = (await result(kind)).slice(0, 40)
    expect(await result('')).toStartWith('200 {"ret":0,"msgs":[]')
  }
  expect(seen).toMatchObject({
    '400': expect.stringContaining('400 '),
    '401': expect.stringContaining('401 '),
    '404': '404 not found',
    '405': '405 ',
    '500': '500 ',
    '502': expect.stringContaining('502 <!DOCTYPE html>'),
    '524': expect.stringContaining('524 <!DOCTYPE html>'),
    hang: 'AbortError',
    reset: expect.stringMatching(/^(Type)?Error$/),
    cut: expect.stringMatching(/^(Type)?Error$/),
    slow: expect.stringContaining('200 {"ret":0'),
    malformed: 'SyntaxError',
    truncated: 'SyntaxError',
    html: expect.stringContaining('200 <!DOCTYPE html>'),
    empty_body: '200 ',
    nulls: expect.stringContaining('200 {"ret":null,'),
    empty: '200 {"ret":0,"msgs":[]}',
    ret: '200 {"ret":-7}',
    errcode: '200 {"errcode":-7}',
    expired: expect.stringContaining('200 {"errcode":-14,'),
  })
})
