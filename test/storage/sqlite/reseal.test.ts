import { expect, test } from 'bun:test'
import { rmSync, statSync, truncateSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createSealer, noSealer, type Sealer } from '../../../src/platform/sealing.ts'
import * as sealedPlaces from '../../../src/storage/sealed-places.ts'
import { reseal, resealSteps } from '../../../src/storage/sqlite/reseal.ts'
import { openSealer, readSecretState, writeSecretState } from '../../../src/storage/sqlite/secret-state.ts'
import { canMount, smallDisk } from '../../faults/support/mounts.ts'
import { codeOf, failure } from '../../support/failure.ts'
import { folderOfTest } from '../../support/folder.ts'
import { contentOf, filesIn, filesWith, fillDirectory, mark } from './secret-directory.ts'
import { startOnDirectory, startProcess } from './support.ts'

const lockModule = fileURLToPath(new URL('../../../src/platform/lock.ts', import.meta.url))
const secrets = new Map(
  ['first-key-of-the-tests-0123456789abcdef', 'second-key-of-the-tests-0123456789abcd'].map(secret => [
    createSealer(secret),
    secret,
  ]),
)
const [first, second] = [...secrets.keys()] as [Sealer, Sealer]
const secretOf = (sealer: Sealer | undefined) => (sealer && secrets.get(sealer)) ?? null
const change = (dir: string, from: Sealer = noSealer, to: Sealer = noSealer) =>
  reseal(dir, async () => ({ from, to }))

test('switched on, rotated and off: no byte of a secret while it is on, and all as before afterwards', async () => {
  const dir = folderOfTest()
  await fillDirectory(dir)
  expect(await filesWith(dir, mark)).toContain('messages.db-wal')
  const before = await contentOf(dir)
  await change(dir, noSealer, first)
  expect(await filesWith(dir, mark)).toEqual([])
  const sealed = await filesWith(dir, first.keyId!)
  await change(dir, first, second)
  expect(await filesWith(dir, mark)).toEqual([])
  expect(await filesWith(dir, first.keyId!)).toEqual([])
  expect(await filesWith(dir, second.keyId!)).toEqual(sealed)
  await change(dir, second)
  expect(await filesWith(dir, second.keyId!)).toEqual([])
  expect(await contentOf(dir)).toEqual(before)
})

test('killed after each step: everything refuses the directory until the same change carries on', async () => {
  const dir = folderOfTest()
  await fillDirectory(dir)
  const before = await contentOf(dir)
  const changes = [
    [undefined, first],
    [first, second],
    [second, undefined],
  ] as const
  for (const step of resealSteps)
    for (const [from, to] of changes) {
      const child = startProcess(
        {
          reseal: 'storage/sqlite/reseal.ts',
          createSealer: 'platform/sealing.ts',
          noSealer: 'platform/sealing.ts',
        },
        `const keys = [${JSON.stringify([secretOf(from), secretOf(to)])}].map(([from, to]) => ({
           from: from ? createSealer(from) : noSealer, to: to ? createSealer(to) : noSealer }))[0]
         await reseal(${JSON.stringify(dir)}, async () => keys, step => step === '${step}' && process.kill(process.pid, 'SIGKILL'))`,
      )
      expect(await child.exited).toBe(137)
      const state = { from: from?.keyId ?? null, to: to?.keyId ?? null }
      expect(await readSecretState(dir)).toEqual(state)
      for (const secret of [undefined, ...secrets.values()])
        expect(await codeOf(openSealer(dir, secret))).toBe('store_unavailable')
      // Another change is refused, and changes nothing.
      expect(await codeOf(change(dir, to, from))).toBe('store_unavailable')
      expect(await readSecretState(dir)).toEqual(state)
      await change(dir, from, to)
      expect(await filesWith(dir, '.tmp')).toEqual([])
      if (from) expect(await filesWith(dir, from.keyId!)).toEqual([])
      if (to) expect(await filesWith(dir, mark)).toEqual([])
    }
  expect(await contentOf(dir)).toEqual(before)
}, 60_000)

test('written with a key, also users who moved to the archive: nothing stays encrypted once it is off', async () => {
  const dir = folderOfTest()
  await writeSecretState(dir, { key: first.keyId! })
  // More users than contexts.json has room for.
  await fillDirectory(dir, 1300, secretOf(first)!)
  const written = await filesWith(dir, 'svc-sealed:')
  expect(written).toEqual(['messages.db', 'other/token.json', 's/contexts.json', 's/token.json'])
  // What other programs wrote into it is encrypted with the next change.
  await change(dir, first, second)
  expect(await filesWith(dir, mark)).toEqual([])
  await change(dir, second)
  expect(await filesWith(dir, 'svc-sealed:')).toEqual([])
})

test('refused while another process has the directory open, and it is left as it is', async () => {
  const dir = folderOfTest()
  await fillDirectory(dir)
  const ways = {
    'a store that is open': 'await store.log.getHead()',
    'a poller': 'await storage.leases.join()',
    'a process that writes session files': `const { openLock } = await import(${JSON.stringify(lockModule)})
      await storage.close(); const lock = await openLock(${JSON.stringify(join(dir, '.data.lock'))}); await lock.lock()`,
  }
  for (const [what, body] of Object.entries(ways)) {
    const child = startOnDirectory(dir, `${body}; console.log('ready'); await hold()`)
    await child.stdout.getReader().read()
    let asked = false
    const refused = await failure(
      reseal(dir, async () => {
        asked = true
        return { from: noSealer, to: first }
      }),
    )
    expect([what, refused]).toEqual([
      what,
      expect.objectContaining({ code: 'store_unavailable', message: expect.stringContaining(dir) }),
    ])
    // No key was made.
    expect(asked).toBe(false)
    expect(await readSecretState(dir)).toEqual({ key: null })
    child.kill('SIGKILL')
    await child.exited
  }
  await change(dir, undefined, first)
  expect(await filesWith(dir, mark)).toEqual([])
})

test.skipIf(!canMount)(
  'a disk without room: refused before, and carried on if it fills up in between',
  async () => {
    const disk = smallDisk('16m')
    try {
      const dir = join(disk.dir, 'data')
      await mkdir(dir, { mode: 0o700 })
      await fillDirectory(dir)
      const before = await contentOf(dir)
      const filler = join(disk.dir, 'filler')
      const fill = () =>
        Bun.spawnSync(['dd', 'if=/dev/zero', `of=${filler}`, 'bs=4096'], { stderr: 'ignore' })
      fill()
      truncateSync(filler, statSync(filler).size - 1_000_000)
      expect(await failure(change(dir, undefined, first))).toMatchObject({
        code: 'store_unavailable',
        message: expect.stringMatching(/\d\.\d .*messages\.db/),
        hint: expect.any(String),
      })
      expect(await readSecretState(dir)).toEqual({ key: null })
      for (const full of resealSteps.slice(0, 3)) {
        rmSync(filler)
        const filled = reseal(
          dir,
          async () => ({ from: noSealer, to: first }),
          step => step === full && fill(),
        )
        expect(await failure(filled)).toMatchObject({ code: 'store_unavailable', hint: expect.any(String) })
        expect(await readSecretState(dir)).toEqual({ from: null, to: first.keyId! })
      }
      rmSync(filler)
      await change(dir, undefined, first)
      expect(await filesWith(dir, mark)).toEqual([])
      await change(dir, first)
      expect(await contentOf(dir)).toEqual(before)
    } finally {
      disk.unmount()
    }
  },
)

test('a wrong key, a damaged value, a change that is done already: nothing is changed', async () => {
  const dir = folderOfTest()
  await fillDirectory(dir)
  expect(await codeOf(change(dir, first, second))).toBe('store_unavailable')
  await change(dir, undefined, first)
  const sealed = await filesIn(dir)
  expect(await codeOf(change(dir, second, undefined))).toBe('store_unavailable')
  expect(await codeOf(change(dir, undefined, second))).toBe('store_unavailable')
  expect(await change(dir, undefined, first)).toBe(false)
  expect((await filesIn(dir)).get('s/token.json')).toEqual(sealed.get('s/token.json')!)
  const path = join(dir, 's/token.json')
  const text = await readFile(path, 'utf8')
  const damaged = text.replace(
    /(svc-sealed:[0-9a-f]+:.{8})(.)/,
    (_all, before: string, character: string) => before + (character === '-' ? '_' : '-'),
  )
  await writeFile(path, damaged)
  expect(await codeOf(change(dir, first, undefined))).toBe('store_unavailable')
  expect(await readSecretState(dir)).toEqual({ key: first.keyId! })
})

test('the state in .secrets is damaged: the same change writes it again', async () => {
  const dir = folderOfTest()
  await fillDirectory(dir, 2)
  await change(dir, undefined, first)
  await writeFile(join(dir, '.secrets'), '{"ke')
  expect(await codeOf(change(dir, second, undefined))).toBe('store_unavailable')
  expect(await readFile(join(dir, '.secrets'), 'utf8')).toBe('{"ke')
  await change(dir, first, second)
  expect(await readSecretState(dir)).toEqual({ key: second.keyId! })
})

test('no kind of secret is forgotten: the rewriting names each map of sealed-places.ts, and places are made only there', async () => {
  const src = fileURLToPath(new URL('../../../src/', import.meta.url))
  const sources = await readdir(src, { recursive: true })
  const code = new Map(
    await Promise.all(
      sources
        .filter(path => path.endsWith('.ts'))
        .map(async path => [path, await readFile(join(src, path), 'utf8')] as const),
    ),
  )
  const rewriting = ['sqlite/reseal.ts', 'table-list.ts']
    .map(name => code.get(`storage/${name}`)?.replaceAll(/^import .*?from '/gms, ''))
    .join('\n')
  const maps = Object.keys(sealedPlaces).filter(name => name.startsWith('map'))
  expect(maps.length).toBeGreaterThan(5)
  expect(maps.filter(name => !new RegExp(`\\b${name}\\b`).test(rewriting))).toEqual([])
  const makers = [...code].filter(
    ([, text]) => /\btable: [^{}]*\bcolumn: [^{}]*\bkey\b/.test(text) && /[sS]eal/.test(text),
  )
  expect(makers.map(([path]) => path).sort()).toEqual(['platform/sealing.ts', 'storage/sealed-places.ts'])
})
