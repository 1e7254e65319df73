/** The one file that people download: built as a release is, run where nothing is installed. */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pkg from '../package.json' with { type: 'json' }
import { smoke } from '../scripts/smoke.ts'
import { canContain, startIn } from './support/container.ts'
import { ended } from './support/ended.ts'
import { folderOfFile } from './support/folder.ts'
import { librariesOf, makeRoot } from './support/root.ts'

const folder = folderOfFile()
/** The run of all tests has built it already, by the same script. */
const given = process.env.SVC_TEST_PROGRAM ?? ''
const binary = existsSync(given) ? given : join(folder, 'out', 'svc')
const empty = join(folder, 'empty')

const output = (command: string[]) =>
  ended(command, { cwd: empty, env: { PATH: '/nowhere', HOME: empty }, withinMs: 120_000 })

test('the build makes one file, and refuses a target that is none', async () => {
  mkdirSync(empty)
  const script = join(import.meta.dir, '..', 'scripts', 'build.ts')
  if (binary !== given) {
    const built = await output([process.execPath, script, `--outfile=${binary}`])
    expect([built.status, built.stderr]).toEqual([0, ''])
    expect(readdirSync(join(folder, 'out')).sort()).toEqual(['svc'])
  }
  // Nothing in it leads to where it was built.
  expect(readFileSync(binary).includes(join(import.meta.dir, '..'))).toBe(false)
  const refused = await output([process.execPath, script, '--target=toaster'])
  expect(refused).toMatchObject({ status: 1, stdout: '' })
  expect(refused.stderr).toMatch(/^error: There is no target toaster\. There are:\n {2}bun-linux-x64\n/)
})

test('it knows its version, and ignores what lies in the folder where it is started', async () => {
  writeFileSync(join(empty, '.env'), 'SVC_HOST=not a host\n')
  writeFileSync(join(empty, 'bunfig.toml'), 'preload = ["./absent.ts"]\n')
  expect(await output([binary, '--version'])).toMatchObject({
    status: 0,
    stdout: expect.stringContaining(pkg.version),
  })
  expect((await output([binary, 'openapi', '--port', 'x'])).status).toBe(2)
})

test('it serves tools, docs and the phone out of itself, and stops when told', async () => {
  const child = Bun.spawn(
    [binary, 'openapi', '--sandbox', '-p', '0', '--sandbox-port', '0', '-d', 'home', '--no-banner'],
    { cwd: empty, env: { PATH: '/nowhere', HOME: empty }, stdout: 'pipe', stderr: 'pipe' },
  )
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let said = ''
  while (!/listening on \S+[\s\S]*phone on \S+\n/.test(said)) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`ended after "${said}": ${await new Response(child.stderr).text()}`)
    said += value
  }
  const urlAfter = (words: string) => new RegExp(`${words} (\\S+)`).exec(said)?.[1] ?? ''
  const base = urlAfter('listening on')
  expect(await (await fetch(`${base}/tools`)).json()).toHaveLength(9)
  const docs = await fetch(`${base}/docs`)
  expect([docs.status, docs.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/html')])
  for (const [, path] of (await docs.text()).matchAll(/(?:src|href)="([^"#:]+)"/g)) {
    const part = await fetch(new URL(path!, `${base}/docs`))
    expect([path, part.status]).toEqual([path, 200])
  }
  expect((await fetch(urlAfter('phone on'))).status).toBe(200)
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
})

const can = canContain && Bun.which('ldd') !== null
const skipped = can ? '' : ' (skipped: needs root that may mount, unshare and setpriv, and ldd)'

test.skipIf(!can)(
  `a whole conversation with no shell, no /etc and no device, but the loader and four libraries${skipped}`,
  async () => {
    using root = makeRoot()
    root.add('/svc', binary)
    for (const path of librariesOf(binary)) root.add(path)
    const files = readdirSync(root.root, { recursive: true, withFileTypes: true }).filter(file =>
      file.isFile(),
    )
    const names = files.map(file => file.name.replace(/^ld-linux-.*/, 'the loader')).sort()
    expect(names).toEqual(['libc.so.6', 'libdl.so.2', 'libm.so.6', 'libpthread.so.0', 'svc', 'the loader'])
    await smoke({
      command: startIn(root, ['/svc']),
      data: root.data,
      dataInside: '/data',
      version: pkg.version,
    })
  },
)
