/** What `svc/client` brings into a program: the routes of the operations, and nothing of the service. */
import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { clientDeclarations } from '../../scripts/build/client-types.ts'
import { readRoutes } from '../../scripts/client-routes.ts'
import { routes } from '../../src/client/routes.ts'
import { ended } from '../support/ended.ts'
import { folderOfTest } from '../support/folder.ts'

const root = join(import.meta.dirname, '../..')

test('the routes are those of the operations; otherwise run bun scripts/client-routes.ts', () => {
  expect(JSON.parse(JSON.stringify(routes))).toEqual(JSON.parse(JSON.stringify(readRoutes())))
})

test('it is at most 16 kB for a browser, and imports nothing but files of Node when a call names one', async () => {
  const { outputs } = await Bun.build({
    entrypoints: [join(root, 'src/client/index.ts')],
    target: 'browser',
    splitting: true,
    minify: true,
    external: ['node:*'],
  })
  const [entry, ...others] = await Promise.all(outputs.map(output => output.text()))
  const sizes = [entry!, ...others].map(text => Bun.gzipSync(text).length)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(16 * 1024)
  const imports = (text: string) => [...text.matchAll(/"(node:[\w/]+)"/g)].map(([, name]) => name)
  const staticOnes = outputs.filter(({ kind }) => kind === 'entry-point' || kind === 'chunk')
  expect(imports(entry!)).toEqual([])
  expect([...new Set(others.flatMap(imports))].sort()).toEqual([
    'node:crypto',
    'node:fs/promises',
    'node:path',
  ])
  expect(staticOnes.length).toBe(outputs.length)
})

test('its declarations are at most 60 kB, and need no package', async () => {
  const declarations = await clientDeclarations(root)
  expect(Buffer.byteLength(declarations)).toBeLessThan(60_000)
  expect(declarations).not.toMatch(/^import|\bimport\(/m)
  const folder = folderOfTest()
  await writeFile(join(folder, 'client.d.ts'), declarations)
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  await writeFile(join(folder, 'program.ts'), program)
  const options = ['--strict', '--exactOptionalPropertyTypes', '--target', 'esnext', '--module', 'nodenext']
  const tsc = [join(root, 'node_modules/.bin/tsc'), '--noEmit', ...options, '--types', '', 'program.ts']
  expect(await ended(tsc, { cwd: folder, env: {}, withinMs: 120_000 })).toMatchObject({
    stdout: '',
    status: 0,
  })
})

const program = `
import { isSvcError, Svc, type SvcApi, SvcError } from './client.js'
await using svc = await Svc.connect('http://127.0.0.1:8000', { key: 'svc_1_2' })
for await (const message of svc.messages({ consumer: 'echo' })) {
  const { status, not_before } = await svc.send({ to: message.from_user, text: message.text })
  const both: [string, number | undefined] = [status, not_before]
  console.log(both)
}
const cancelled: number = (await svc.outbox.cancel('1')).cancelled
const key: string = (await svc.keys.add({ name: 'reader', can: ['read'] })).key
await svc.topics.notify('home', 'Done', { title: 'Washing' })
for await (const event of svc.events()) if (event.type === 'message.received') console.log(event.data.text)
const read = (api: SvcApi) => api.history().catch((error: unknown) => isSvcError(error, 'unreachable') && error.hint)
console.log(await read(svc), cancelled, key, SvcError)
// @ts-expect-error no such argument
await svc.send({ to: 'a', texd: 'x' })
// @ts-expect-error only of Svc.open
svc.workAsAgent()
`
