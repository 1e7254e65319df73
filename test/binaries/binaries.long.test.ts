/** The files that people download, made as a release makes them, by a build that somebody else can do again. */
import { beforeAll, describe } from 'bun:test'
import { join } from 'node:path'
import process from 'node:process'
import { buildRelease } from '../../scripts/build/release.ts'
import { findTarget } from '../../scripts/build/targets.ts'
import { canBuild } from '../support/binary.ts'
import { folderOfFile } from '../support/folder.ts'
import { buildTests } from './again.ts'
import { fileTests } from './files.ts'
import { installTests } from './installing.ts'

const folder = folderOfFile()
const release = join(folder, 'release')

// One of each format; the one for this machine is started.
const targets = [
  'bun-linux-x64',
  'bun-linux-arm64-musl',
  'bun-darwin-arm64',
  'bun-darwin-x64',
  'bun-windows-x64',
].map(findTarget)

const there = await canBuild(targets)
const here = process.platform === 'linux' && process.arch === 'x64'

describe.skipIf(!there || !here)('a release (skipped without the runtimes, or off Linux x64)', () => {
  beforeAll(async () => {
    await buildRelease({ outdir: release, targets, level: 0, print: () => {} })
  }, 300_000)
  describe('its files', () => fileTests(release, targets))
  describe('its build', () => buildTests(release, folder))
  describe('its installer', () => installTests(release, folder))
})
