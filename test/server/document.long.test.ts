import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { startAdmin } from '../support/admin.ts'
import { installed } from '../support/agents.ts'
import { ended } from '../support/ended.ts'
import { newFolder } from '../support/folder.ts'
import { checkedClient, spectral, toolsDir } from '../support/openapi-judges.ts'
import { startRest } from '../support/rest.ts'

const documentAt = async (url: string) => (await fetch(`${url}/openapi.json`)).text()

test('Spectral has nothing to say of any document', async () => {
  await using rest = await startRest({ token: 'a-long-enough-token' })
  await using admin = await startAdmin({ sessions: [], start: false })
  for (const url of [rest.url, admin.url]) expect(await spectral('oas', await documentAt(url))).toEqual([])
  const events = await (await fetch(`${rest.url}/asyncapi.json`)).text()
  const found = await spectral('asyncapi', events)
  // It wants an address and an email of whom to contact, which this project does not have.
  expect(found.filter(({ code }) => code !== 'asyncapi-info-contact-properties')).toEqual([])
}, 300_000)

test('a generated client type-checks with TypeScript 5', async () => {
  await using rest = await startRest()
  const typescript = Bun.resolveSync('typescript/package.json', toolsDir)
  expect((await Bun.file(typescript).json()).version).toStartWith('5.')
  expect(await checkedClient(await documentAt(rest.url), toolsDir)).toEqual({
    status: 0,
    stdout: '',
    stderr: '',
  })
})

const generators = [
  {
    spec: '@hey-api/openapi-ts@0.95.0',
    bin: 'openapi-ts',
    args: (document: string, out: string) => ['-i', document, '-o', out],
  },
  {
    spec: 'orval@7.13.2',
    bin: 'orval',
    args: (document: string, out: string) => [
      ...['--input', document, '--client', 'fetch'],
      ...['--output', join(out, 'index.ts')],
    ],
  },
]

test('what other generators make compiles in strict mode', async () => {
  await using rest = await startRest()
  using work = newFolder()
  const document = join(work.path, 'openapi.json')
  await Bun.write(document, await documentAt(rest.url))
  for (const { args, bin, spec } of generators) {
    const package_ = await installed(spec, bin, ['typescript@5.9.3'])
    if ('why' in package_) throw new Error(package_.why)
    const out = join(work.path, bin)
    const env = { PATH: process.env.PATH ?? '', HOME: work.path, NO_COLOR: '1' }
    const command = join(package_.folder, 'node_modules', '.bin', bin)
    const made = await ended([command, ...args(document, out)], { cwd: work.path, env })
    expect([spec, made.status, made.stderr]).toEqual([spec, 0, made.stderr])
    const strict = {
      compilerOptions: {
        ...{ target: 'esnext', module: 'esnext', moduleResolution: 'bundler', types: [], noEmit: true },
        ...{ lib: ['esnext', 'dom', 'dom.iterable'], strict: true },
      },
      files: ['index.ts'],
    }
    await Bun.write(join(out, 'tsconfig.json'), JSON.stringify(strict))
    const typescript = Bun.resolveSync('typescript/package.json', toolsDir)
    const checked = await ended(
      [process.execPath, typescript.replace('package.json', 'bin/tsc'), '-p', out],
      {
        cwd: work.path,
        env,
      },
    )
    expect([spec, checked.status, checked.stdout]).toEqual([spec, 0, ''])
  }
}, 600_000)
