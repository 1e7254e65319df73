/** A used data directory with a person who is erased and one who stays, and a service on it. */
import { expect } from 'bun:test'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { svcProcess } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { logIn, type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

export const withinMs = 30_000
export const [gone, stays] = ['o-gone-0001@im.wechat', 'o-stays-0002@im.wechat']
/** With pairs of characters that occur nowhere else: the full-text index has pairs. */
const texts = ['hush-hush secret', '枭魈', '🦤🦕 extinct', `"quoted" \\ ${'龘靐'.repeat(500)}`]
const name = 'Zacharias Ütz'
const fileBytes = 'bytes of a kept file'
const words = [gone, 'o-gone', ...texts, '枭魈', '龘靐', '🦤', 'Zacharias', 'qqwaiting', fileBytes]
const traces = words.flatMap(text => [text, JSON.stringify(text).slice(1, -1)])

/** Returns the files of a data directory with one of the texts. The sandbox is WeChat's own. */
export async function findTraces(dir: string, wanted: readonly string[] = traces): Promise<string[]> {
  const found: string[] = []
  for (const path of await readdir(dir, { recursive: true })) {
    if (path === 'sandbox' || path.startsWith('sandbox/')) continue
    // A temporary file may be gone by now.
    if (!(await stat(join(dir, path)).catch(() => undefined))?.isFile()) continue
    const bytes = await readFile(join(dir, path)).catch(() => '')
    for (const text of wanted) if (bytes.includes(text)) found.push(`${path}: ${text.slice(0, 20)}`)
  }
  return found
}

/** A person who wrote, has a name, got all ten answers, and for whom two sends wait, one with a file. */
async function talk(service: Service, user: string, own: { name: string; texts: string[]; waits: string }) {
  const { dir } = service
  const say = (text: string) => service.phone('say', { text, from: user })
  for (const text of own.texts) await say(text)
  const received = async () =>
    (await service.call('history', { user_id: user, direction: 'received' })).body.total === own.texts.length
  await until('all are stored', withinMs, received)
  const named = await fetch(`${service.url}/users/${encodeURIComponent(user)}/name`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: own.name }),
  })
  expect(named.status).toBe(200)
  for (let count = 0; count < 10; count++) {
    const { body } = await service.call('send', { to: own.name, text: `${own.texts[0]} ${count}` })
    expect(body.status).toBe('accepted')
  }
  const path = join(dir, 'media', `${own.waits}.txt`)
  await writeFile(path, own.waits.startsWith('qq') ? fileBytes : 'other bytes')
  const queue = { to: user, when_closed: 'queue', text: own.waits }
  expect((await service.call('send', queue)).body.status).toBe('queued')
  const file = { ...queue, text: '', media: [{ kind: 'file', path }] }
  expect((await service.call('send', file)).body.status).toBe('queued')
  await Bun.file(path).delete()
}

/** Starts the service; it ends at the end of the block. */
export async function startWorld() {
  const home = folderOfTest()
  const dir = home
  const service = await startService({ dir, args: ['--pace', 'off'], readyWithinMs: withinMs })
  for (const id of [gone, stays]) await service.phone('users', { id })
  await logIn(service, 'work', gone)
  // Left by a killed writer, and set aside because it did not parse.
  for (const file of ['contexts.json.0123456789ab.tmp', 'contexts.json.corrupt-1700000000000'])
    await writeFile(join(dir, 'work', file), `{"${gone}": {"token`)
  // Left by a killed backup.
  await writeFile(join(dir, 'messages.db.0123456789ab.tmp'), gone)
  await talk(service, stays, { name: 'Other', texts: ['Good morning', '你好'], waits: 'other waiting' })
  await talk(service, gone, { name, texts, waits: 'qqwaiting' })
  const command = (...args: string[]) => svcProcess([...args, '-d', dir, '--sandbox'], { home })
  return { dir, home, service, command, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() }
}
