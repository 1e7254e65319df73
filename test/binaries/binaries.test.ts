/** The files that people download, made as a release makes them, by a build that somebody else can do again. */
import { afterAll, beforeAll, describe } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { buildRelease } from '../../scripts/build/release.ts'
import { verifiedPackage } from '../../scripts/build/runtime.ts'
import { targetNamed } from '../../scripts/build/targets.ts'
import { buildTests } from './again.ts'
import { fileTests } from './files.ts'
import { installTests } from './installing.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-release-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const release = join(folder, 'release')

// One of each format; the one for this machine is started.
const targets = [
  'bun-linux-x64',
  'bun-linux-arm64-musl',
  'bun-darwin-arm64',
  'bun-darwin-x64',
  'bun-windows-x64',
].map(targetNamed)

// With neither network nor what an earlier build fetched there is nothing to build from.
const env = { ...process.env, npm_config_fetch_retries: '0', npm_config_fetch_timeout: '60000' }
const there = await Promise.all(targets.map(target => verifiedPackage(target.runtime, { env }))).then(
  () => true,
  () => false,
)
const here = process.platform === 'linux' && process.arch === 'x64'

describe.skipIf(!there || !here)('a release (skipped without the runtimes, or off Linux x64)', () => {
  beforeAll(async () => {
    await buildRelease({ outdir: release, targets, level: 0, say: () => {} })
  }, 120_000)
  describe('its files', () => fileTests(release, targets))
  describe('its build', () => buildTests(release, folder))
  describe('its installer', () => installTests(release, folder))
})
