/** The settings of programs of the relay: their text, and how they get into files that have something else, too. */
import { expect, test } from 'bun:test'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { relayPrograms } from '../../src/model/relay.ts'
import { relaySettingsOf, writeRelaySetting } from '../../src/setup/relay-programs.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'

const facts = {
  token: 'svc_k3v9x2ab_00',
  base_url: 'http://127.0.0.1:8000',
  cdn_url: 'http://127.0.0.1:8000/ilink/c2c',
  bot_id: '4F2c@im.bot',
  user_id: 'o9@im.wechat',
}
const read = (path: string) => readFile(path, 'utf8')
const json = async (path: string) => JSON.parse(await read(path))

test('every program gets the address and the token', () => {
  for (const program of relayPrograms) {
    const all = relaySettingsOf(program, facts)
      .map(({ text }) => text)
      .join('\n')
    expect([program, all.includes(facts.token), all.includes(facts.base_url)]).toEqual([program, true, true])
  }
})

/** Writes the settings of a program into a home that has these files. */
async function write(program: (typeof relayPrograms)[number], there: Record<string, string> = {}, now = 1) {
  const home = folderOfTest()
  for (const [name, text] of Object.entries(there)) {
    await mkdir(dirname(join(home, name)), { recursive: true })
    await writeFile(join(home, name), text, { mode: 0o644 })
  }
  const again = async (at: number, more = facts) => {
    const written = []
    for (const { file, text } of relaySettingsOf(program, more))
      if (file !== undefined) written.push(await writeRelaySetting({ file, text }, home, at))
    return written
  }
  return { home, written: await again(now), again }
}

test('OpenClaw: its accounts stay, and only the own file is replaced, with a copy of what was there', async () => {
  const folder = '.openclaw/openclaw-weixin'
  const own = `${folder}/accounts/4f2c-im-bot.json`
  const before = JSON.stringify({ token: 'of WeChat', baseUrl: 'https://wechat', savedAt: 'then' })
  const { again, home, written } = await write('openclaw', {
    [`${folder}/accounts.json`]: '["other-im-bot"]',
    [own]: before,
  })
  const path = join(home, own)
  const index = join(home, folder, 'accounts.json')
  expect(written).toEqual([
    { path, copy: `${path}.bak` },
    { path: index, copy: `${index}.bak` },
  ])
  expect(await json(path)).toEqual({
    token: facts.token,
    baseUrl: facts.base_url,
    userId: facts.user_id,
    savedAt: 'then',
  })
  expect(await json(index)).toEqual(['other-im-bot', '4f2c-im-bot'])
  expect(await read(`${path}.bak`)).toBe(before)
  for (const name of [path, `${path}.bak`, index]) expect((await stat(name)).mode & 0o777).toBe(0o600)
  // The same once more changes nothing; another token keeps the first copy.
  expect(await again(2)).toEqual([{ path }, { path: index }])
  expect(await again(3, { ...facts, token: 'svc_next_00' })).toEqual([
    { path, copy: `${path}.3.bak` },
    { path: index },
  ])
  expect(await read(`${path}.bak`)).toBe(before)
})

test('new files are private, and other lines of an environment file stay', async () => {
  const { home } = await write('weilink')
  const path = join(home, '.weilink/default/token.json')
  expect(await json(path)).toMatchObject({ token: facts.token, cursor: '' })
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  const hermes = await write('hermes', { '.hermes/.env': 'A=1\nWEIXIN_TOKEN=old\n# WEIXIN_TOKEN=x\nB=2\n' })
  expect((await read(join(hermes.home, '.hermes/.env'))).split('\n')).toEqual([
    'A=1',
    '# WEIXIN_TOKEN=x',
    'B=2',
    `WEIXIN_ACCOUNT_ID=${facts.bot_id}`,
    `WEIXIN_TOKEN=${facts.token}`,
    `WEIXIN_BASE_URL=${facts.base_url}`,
    `WEIXIN_CDN_BASE_URL=${facts.cdn_url}`,
    '',
  ])
})

test('a file that its program does not write so stays as it is', async () => {
  for (const text of ['not JSON', '"text"', '{"an": "object"}']) {
    const there = { '.openclaw/openclaw-weixin/accounts.json': text }
    expect([text, await failure(write('openclaw', there))]).toMatchObject([text, { code: 'forbidden' }])
  }
})
