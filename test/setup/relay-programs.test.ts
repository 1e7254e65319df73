/** The settings of programs of the relay: their text, and how they get into files that have something else, too. */
import { expect, test } from 'bun:test'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { relayPrograms } from '../../src/model/relay.ts'
import {
  type RelayFacts,
  relayFileOf,
  relaySettingsOf,
  writeRelaySetting,
} from '../../src/setup/relay-programs.ts'
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
async function write(program: (typeof relayPrograms)[number], there: Record<string, string> = {}, env = {}) {
  const home = folderOfTest()
  for (const [name, text] of Object.entries(there)) {
    await mkdir(dirname(join(home, name)), { recursive: true })
    await writeFile(join(home, name), text, { mode: 0o644 })
  }
  const again = async (at: number, more: RelayFacts = facts) => {
    const written = []
    for (const { file, text } of relaySettingsOf(program, more))
      if (file !== undefined)
        written.push(await writeRelaySetting({ path: relayFileOf(file, { home, env }), text }, at))
    return written
  }
  return { home, written: await again(1), again }
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

test('a list that has the entry already stays as its program wrote it', async () => {
  const file = '.openclaw/openclaw-weixin/accounts.json'
  const text = '[\n  "4f2c-im-bot", "other-im-bot"]'
  const { home, written } = await write('openclaw', { [file]: text })
  expect(written.at(-1)).toEqual({ path: join(home, file) })
  expect(await read(join(home, file))).toBe(text)
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

/** What Hermes reads: python-dotenv takes the last assignment of a name. */
function readEnv(text: string): Record<string, string> {
  const found = /^[ \t]*(?:export[ \t]+)?([^=#\s]+)[ \t]*=[ \t]*(?:'([^']*)'|"([^"]*)"|([^\n]*))/gm
  return Object.fromEntries([...text.matchAll(found)].map(([, name, ...values]) => [name, values.join('')]))
}

test('an environment file keeps every other line byte for byte, and has each name once', async () => {
  const others = [
    "# the token: WEIXIN_TOKEN=x isn't here\r\n",
    '\n',
    'A=1 \r\n',
    'NOTE="two lines\nWEIXIN_TOKEN=in a text\nend" # it\'s kept\n',
    "export B='1\n2'\n",
    'MY_WEIXIN_TOKEN=mine\n',
    'OPEN="not closed\n',
    '\n\n',
  ]
  for (const own of [
    'export WEIXIN_TOKEN=old\n',
    "  export  WEIXIN_TOKEN = 'old'\n",
    'WEIXIN_TOKEN="old\nWEIXIN_BASE_URL=inside\nold"\n',
    "'WEIXIN_TOKEN'=old # comment\r\n",
    'WEIXIN_TOKEN=old\nWEIXIN_TOKEN=older\nexport WEIXIN_BASE_URL="https://wechat"\n',
  ]) {
    const before = [...others.slice(0, 4), own, ...others.slice(4)].join('')
    const { again, home } = await write('hermes', { '.hermes/.env': before })
    const path = join(home, '.hermes/.env')
    const after = await read(path)
    expect([own, after.startsWith(others.join(''))]).toEqual([own, true])
    const rest = after.slice(others.join('').length)
    expect(rest.split('\n').map(line => line.split('=')[0])).toEqual([
      ...['WEIXIN_ACCOUNT_ID', 'WEIXIN_TOKEN', 'WEIXIN_BASE_URL', 'WEIXIN_CDN_BASE_URL', ''],
    ])
    expect(readEnv(rest).WEIXIN_TOKEN).toBe(facts.token)
    expect(await again(2)).toEqual([{ path }])
  }
  const { home } = await write('hermes', { '.hermes/.env': 'A=no end' })
  expect((await read(join(home, '.hermes/.env'))).split('\n').slice(0, 2)).toEqual([
    'A=no end',
    `WEIXIN_ACCOUNT_ID=${facts.bot_id}`,
  ])
})

test('the person of another account does not stay where the person is not known', async () => {
  const files = {
    openclaw: '.openclaw/openclaw-weixin/accounts/4f2c-im-bot.json',
    weilink: '.weilink/default/token.json',
    'wechat-acp': '.wechat-acp/token.json',
  } as const
  for (const [program, file] of Object.entries(files)) {
    const there = { [file]: '{"userId": "old@im.wechat", "user_id": "old@im.wechat", "more": 1}' }
    const { again, home } = await write(program as 'openclaw', there)
    await again(2, { ...facts, user_id: undefined })
    const name = program === 'weilink' ? 'user_id' : 'userId'
    expect([program, await json(join(home, file))]).toMatchObject([program, { [name]: '', more: 1 }])
  }
})

test('a program that keeps its files elsewhere gets them there', async () => {
  const place = folderOfTest()
  for (const [program, env, path] of [
    ['openclaw', { OPENCLAW_STATE_DIR: ` ${place}/a ` }, `${place}/a/openclaw-weixin/accounts.json`],
    ['openclaw', { CLAWDBOT_STATE_DIR: `${place}/b` }, `${place}/b/openclaw-weixin/accounts.json`],
    ['hermes', { HERMES_HOME: `${place}/c`, OPENCLAW_STATE_DIR: '/x' }, `${place}/c/.env`],
  ] as const) {
    const { written } = await write(program, {}, env)
    expect(written.at(-1)).toEqual({ path: join(path) })
    expect(await read(path)).not.toBe('')
  }
  const { home, written } = await write('openclaw', {}, { OPENCLAW_STATE_DIR: ' ', HERMES_HOME: place })
  expect(written.at(-1)?.path).toBe(join(home, '.openclaw/openclaw-weixin/accounts.json'))
})

test('NoneBot takes a list of tokens', () => {
  const [{ text } = { text: '' }] = relaySettingsOf('nonebot', facts)
  expect(text).toContain(`CLAWEIXIN_TOKEN=["${facts.token}"]\n`)
})
