/** The whole conversation under Deno: from the sources, from the bundle, and with Bun on the same data before and after. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pkg from '../../package.json' with { type: 'json' }
import { bundle } from '../../scripts/bundle.ts'
import { buildPanel } from '../../scripts/panel.ts'
import { smoke } from '../../scripts/smoke.ts'
import { deno, denoEnv, denoOrNone, denoRun } from '../support/deno.ts'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** What README names for those who do not allow everything. */
const enough = ['--allow-net', '--allow-read', '--allow-write', '--allow-env', '--allow-sys']

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-deno-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe.skipIf(!deno)(`under ${denoOrNone}`, () => {
  test('the sources: login, messages, media, history, then on the same data under Bun, and back', async () => {
    await smoke({
      command: denoRun(main, enough),
      again: [process.execPath, main],
      data: join(folder, 'sources'),
      env: denoEnv,
      version: pkg.version,
    })
  }, 60_000)

  describe('the bundle', () => {
    /** A folder with nothing else in it, as after a download. */
    const empty = () => join(folder, 'empty')
    const file = () => join(empty(), 'svc.mjs')

    test('is one file, and made again it has the same bytes', async () => {
      await buildPanel(join(folder, 'panel'))
      await bundle({ outfile: file(), panel: join(folder, 'panel') })
      await bundle({ outfile: join(folder, 'another', 'svc.mjs'), panel: join(folder, 'panel') })
      expect((await readFile(file())).equals(await readFile(join(folder, 'another', 'svc.mjs')))).toBe(true)
      expect((await readFile(file(), 'utf8')).includes(process.cwd())).toBe(false)
      // Started by its name alone.
      expect((await stat(file())).mode & 0o111).toBe(0o111)
    }, 60_000)

    test('holds the whole conversation where nothing else lies', async () => {
      await smoke({
        command: denoRun(file()),
        data: join(folder, 'bundled'),
        env: denoEnv,
        cwd: empty(),
        version: pkg.version,
      })
    }, 60_000)
  })
})
