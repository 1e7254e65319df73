/** The whole conversation under Deno from the sources, and with Bun on the same data before and after. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pkg from '../../package.json' with { type: 'json' }
import { smoke } from '../../scripts/smoke.ts'
import { deno, denoEnv, denoOrNone, denoRun } from '../support/deno.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
/** What scripts/README.md names for those who do not allow everything. */
const enough = ['--allow-net', '--allow-read', '--allow-write', '--allow-env', '--allow-sys', '--allow-run']

// Deno lets a program read nothing below /dev without all permissions, and temporary files may lie in /dev/shm.
const folder = folderOfFile('/var/tmp')

describe.skipIf(!deno)(`under ${denoOrNone}`, () => {
  test('the sources: login, messages, media, history, then on the same data under Bun, and back', async () => {
    await smoke({
      command: denoRun(main, enough),
      again: svcProgram,
      data: join(folder, 'sources'),
      env: denoEnv,
      version: pkg.version,
    })
  })

  test('without its permissions: what is missing, and how to start it, without a word of a bug', async () => {
    const env = { ...denoEnv, HOME: folder, PATH: process.env.PATH ?? '' }
    const start = (allowed: string[], ...args: string[]) =>
      ended([...denoRun(main, allowed), ...args], { cwd: folder, env })
    expect(await start([], 'openapi')).toEqual({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(/^error: [^\n]*\benv\b[^\n]*\bdeno run -A\b[^\n]*\n$/),
    })
    const { status, stderr } = await start(['--allow-env'], 'sessions', '--json')
    expect(status).toBe(1)
    expect(JSON.parse(stderr)).toMatchObject({
      code: 'forbidden',
      hint: expect.stringContaining('deno run -A'),
    })
  })
})
