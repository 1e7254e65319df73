/** The page about keys: its tables are those of the code, and its commands are run. */
import { expect, test } from 'bun:test'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { grantableRights, presets } from '../../src/model/access.ts'
import { ended } from '../support/ended.ts'
import { folderOfTest } from '../support/folder.ts'
import { type Json, logIn, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const page = await Bun.file(join(import.meta.dir, '../../src/access/README.md')).text()

/** Cells of the first columns of a table, by what its head names first. */
const rowsOf = (head: string): [first: string, second: string][] => {
  const [, table = ''] = page.split(`| ${head} |`)
  const rows = table.split('\n\n')[0]!.matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)
  return [...rows].map(([, first = '', second = '']) => [first, second])
}
const codesIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

const mutable = (lists: Record<string, readonly string[]>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, [...list]]))

test('the presets are those of the code', () => {
  const shown: Record<string, string[]> = {}
  for (const [name, rights] of rowsOf('preset')) {
    const [base = ''] = /^as `\w+`/.exec(rights) ?? []
    const own = codesIn(rights.slice(base.length))
    shown[codesIn(name)[0]!] = [...codesIn(base).flatMap(word => shown[word] ?? []), ...own]
  }
  const { all, ...others } = presets
  expect(shown).toEqual({ ...mutable(others), all: ['draft'] })
  expect(all).not.toContain('draft')
})

test('every right that a key may have is explained', () => {
  const shown = rowsOf('right').flatMap(([names]) => codesIn(names))
  expect(shown.sort()).toEqual([...grantableRights].sort())
})

test('every command does what the page says', async () => {
  const home = folderOfTest()
  await using service = await startService({ env: { HOME: home }, args: ['--pace', 'off'] })
  const ids = new Map<string, string>()
  for (const name of ['work', 'support', 'sales']) {
    const { id } = await service.phone('users', { name })
    await logIn(service, name, id)
    ids.set(name, id)
  }
  const asker = ids.get('sales') ?? ''
  await service.phone('say', { text: 'hello', from: asker })
  const search = async () => (await service.call('history', { session: 'sales' })).body.messages
  await until('the message is stored', 30_000, async () => (await search()).length > 0)
  await writeFile(
    join(home, 'svc'),
    `#!/bin/sh\nexec ${svcProgram.map(word => `'${word}'`).join(' ')} "$@"\n`,
  )
  await chmod(join(home, 'svc'), 0o755)

  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code)
  expect(blocks).toHaveLength(7)
  // The reader puts the key into a variable.
  const [add = '', ...others] = (blocks[0] ?? '').split('\n')
  const put = [`${add} | tee added`, 'KEY=$(grep -o "svc_[0-9a-z]*_[0-9a-f]*" added)', ...others].join('\n')
  const script = [put, ...blocks.slice(1)].join('\necho =====\n')
  const { status, stdout, stderr } = await ended(
    ['bash', '-e', '-o', 'pipefail', '-c', script.replaceAll('http://127.0.0.1:8000', service.url)],
    {
      cwd: home,
      env: {
        PATH: `${home}:${process.env.PATH}`,
        HOME: home,
        SVC_BASE_PATH: service.dir,
        SVC_SANDBOX: '1',
        USER_ID: asker,
      },
    },
  )
  expect({ status, stdout, stderr }).toMatchObject({ status: 0 })
  const [first = '', renewed = '', made, seen = '', approved = '', over = '', audited = ''] =
    stdout.split('=====\n')
  expect(first).toContain('"name":"support-bot"')
  expect(renewed).toMatch(/svc_[0-9a-z]{8}_[0-9a-f]{64}/)
  expect(made).toBe('')
  const [ofSupport, ofReports] = seen.split(/(?<=\])(?=\[)/).map(list => JSON.parse(list))
  const names = (list: Json) => list.map((one: Json) => one.name).sort()
  expect([names(ofSupport), names(ofReports)]).toEqual([['support'], ['sales', 'support', 'work']])
  expect(JSON.parse(approved)).toMatchObject({ made_by_name: 'sales-bot', parts: [{ status: 'accepted' }] })
  expect(over).toContain('"unauthorized"')
  expect(audited).toContain('  login ')
}, 120_000)
