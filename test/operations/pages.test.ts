/** Lists of keys and of users come in pages, and a full page says where the next one begins, at every door. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { Svc } from '../../src/index.ts'
import { owner } from '../../src/model/principal.ts'
import { svc } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'

const token = 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE'
const names = ['a', 'b', 'c', 'd', 'e']

/** Reads all pages over REST, from one to the next. @returns the ids of each page */
async function readPages(url: string, path: string, id: string): Promise<string[][]> {
  const headers = { authorization: `Bearer ${token}` }
  const pages: string[][] = []
  for (let next: string | undefined = new URL(path, url).href; next !== undefined; ) {
    const response: Response = await fetch(next, { headers })
    expect(response.status).toBe(200)
    pages.push(((await response.json()) as Record<string, string>[]).map(row => row[id]!))
    const link = /^<([^>]+)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1]
    next = link && new URL(link, next).href
  }
  return pages
}

test('over REST', async () => {
  await using t = await withGateway()
  const { bot_id: to, user_id: first } = t.bots.get('default')!
  // The last who wrote comes first.
  const ids: string[] = []
  for (const name of names) {
    const from = ids.length === 0 ? first : await t.sandbox.addUser(name)
    await t.sandbox.say('hi', { from, to })
    await t.receive(1)
    ids.unshift(from)
    t.clock.advance(1)
  }
  for (const name of names) await t.gateway.keys.add({ name, can: ['read'] }, owner)
  await using rest = await restOf(t.gateway, { token })
  const read = (path: string, id: string) => readPages(rest.url, path, id)
  expect(await read('/keys', 'name')).toEqual([names])
  expect(await read('/keys?limit=2', 'name')).toEqual([['a', 'b'], ['c', 'd'], ['e']])
  expect(await read('/keys?limit=2&offset=3', 'name')).toEqual([['d', 'e'], []])
  expect(await read('/users', 'user_id')).toEqual([ids])
  expect(await read('/users?session=default&limit=3', 'user_id')).toEqual([ids.slice(0, 3), ids.slice(3)])
  expect(await read(`/users?limit=1&user_id=${ids[2]}`, 'user_id')).toEqual([[ids[2]!], []])
  for (const query of ['limit=0', 'limit=100001', 'offset=-1'])
    for (const path of ['/keys', '/users']) {
      const headers = { authorization: `Bearer ${token}` }
      expect((await fetch(`${rest.url}${path}?${query}`, { headers })).status).toBe(422)
    }
})

test('a thousand come without a limit, in the library and on the command line, which names the rest', async () => {
  const home = folderOfTest()
  const dir = join(home, 'data')
  await using library = await Svc.open({ basePath: dir, store: true })
  for (let nth = 0; nth < 1001; nth++) await library.keys.add({ name: `k${nth}`, can: ['read'] })
  const first = await library.keys.list()
  expect([first.length, first.at(-1)?.name]).toEqual([1000, 'k999'])
  expect((await library.keys.list({ offset: 1000 })).map(({ name }) => name)).toEqual(['k1000'])
  expect(await library.keys.list({ limit: 100_000 })).toHaveLength(1001)
  expect(await library.users({ limit: 3, offset: 1 })).toEqual([])
  const run = (...args: string[]) => svc([...args, '-d', dir], { home })
  const shown = await run('key')
  expect([shown.status, shown.stdout.trim().split('\n').length]).toEqual([0, 1001])
  expect(shown.stderr).toContain('--offset 1000')
  const rest = await run('key', '--offset', '1000')
  expect(rest.stdout).toContain('k1000')
  expect(rest.stderr).not.toContain('--offset')
  expect((await run('key', '-n', '2')).stderr).toContain('--offset 2')
})
