/** A whole service on a directory with a secret key: no file of it shows what grants access. */

import { expect, test } from 'bun:test'
import { basename } from 'node:path'
import { localFilesOf } from '../../src/config/local-files.ts'
import { openGateway } from '../../src/gateway/gateway.ts'
import { owner } from '../../src/model/principal.ts'
import { silentLog } from '../../src/platform/log.ts'
import { createSealer } from '../../src/platform/sealing.ts'
import { ensureSecret, ensureToken, readStoredToken } from '../../src/server/token.ts'
import { writeSecretState } from '../../src/storage/sqlite/secret-state.ts'
import { codeOf } from '../support/failure.ts'
import { folderOfTest, readFolder } from '../support/folder.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { withSandbox } from '../support/sandbox.ts'

const secretKey = 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE'
const signal = new AbortController().signal

/** Returns the files in a directory that have one of these texts, in any byte. */
function filesWith(dir: string, texts: ReadonlySet<string>): string[] {
  return [...readFolder(dir)].flatMap(([path, bytes]) =>
    [...texts].flatMap(text => (bytes.includes(text) ? `${basename(path)}: ${text}` : [])),
  )
}

/** Receives a message of the bot's user, and answers. */
async function talk(t: TestGateway, user: string, text: string): Promise<void> {
  await t.sandbox.say(text)
  expect((await t.receive(1)).map(message => message.text)).toEqual([text])
  expect((await t.send({ to: user, text: `answer to ${text}` })).success).toBe(true)
}

test('after a login, messages, answers, an endpoint and a restart no byte shows a token', async () => {
  const dir = folderOfTest()
  await writeSecretState(dir, { key: createSealer(secretKey).keyId ?? '' })
  await using sandbox = await withSandbox()
  const { db } = sandbox.world.core
  const secrets = new Set<string>()
  /** Adds what the simulated WeChat has given out so far. */
  const learn = () => {
    for (const row of db.all<{ text: string }>`SELECT token AS text FROM bot UNION SELECT qrcode FROM login
      UNION SELECT context_token FROM peer WHERE context_token IS NOT NULL`)
      secrets.add(row.text)
  }
  const options = { dir, sandbox, sessions: [], config: { secretKey } }
  {
    await using t = await withGateway(options)
    const master = (await ensureToken(t.config)).token
    secrets.add(master).add((await ensureSecret(t.config, localFilesOf(dir).mcpKey)).token)
    expect(await readStoredToken(t.config)).toBe(master)

    await t.gateway.logins.begin(owner, 'work', false, signal)
    learn()
    expect(filesWith(dir, secrets)).toEqual([])
    const { user_id: user } = await sandbox.scanAndConfirm()
    await t.until('connected', async () => (await t.gateway.accounts.list())[0]?.connected)
    const { secret } = await t.gateway.webhooks.add(owner, {
      url: 'http://127.0.0.1:9/hook',
      headers: { Authorization: 'Bearer of-the-receiver' },
      allow_private: true,
    })
    secrets.add(secret).add(secret.replace('whsec_', '')).add('of-the-receiver')
    await talk(t, user!, 'hello')
    learn()
    expect(secrets.size).toBe(8)
    expect(filesWith(dir, secrets)).toEqual([])
  }
  expect(filesWith(dir, secrets)).toEqual([])
  {
    await using t = await withGateway(options)
    const { user_id: user } = (await t.gateway.accounts.listUsers('work'))[0]!
    expect((await t.send({ to: user, text: 'again' })).success).toBe(true)
    await talk(t, user, 'after the restart')
    learn()
    expect(filesWith(dir, secrets)).toEqual([])
  }
  expect(filesWith(dir, secrets)).toEqual([])
  await using other = await withGateway({ dir: folderOfTest(), sandbox, sessions: [], start: false })
  for (const path of [undefined, false] as const) {
    const given = { config: { ...other.config, basePath: dir }, log: silentLog, version: '0', store: path }
    expect(await codeOf(openGateway(given))).toBe('store_unavailable')
  }
  expect(await codeOf(ensureToken({ basePath: dir }))).toBe('store_unavailable')
})
