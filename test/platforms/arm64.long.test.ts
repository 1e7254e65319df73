/** The binary for arm64, on another processor: under emulation, with the C library of a Debian for arm64. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pkg from '../../package.json' with { type: 'json' }
import { findTarget } from '../../scripts/build/targets.ts'
import { trialOf } from '../../scripts/releasing/trials.ts'
import { smoke } from '../../scripts/smoke.ts'
import { type Binary, buildBinary, canBuild } from '../support/binary.ts'

const target = findTarget('bun-linux-arm64')
const { command, where } = trialOf(target, '/')
const why = command === undefined ? where : (await canBuild([target])) ? undefined : 'needs the runtime'

let binary: Binary
beforeAll(async () => {
  if (!why) binary = await buildBinary(target)
}, 300_000)
afterAll(() => binary?.[Symbol.dispose]())

test.skipIf(why !== undefined)(
  `a whole conversation on arm64${why ? ` (skipped: ${why})` : ''}`,
  async () => {
    const data = join(binary.folder, 'data')
    const { command = [], patience } = trialOf(target, binary.folder)
    await smoke({ command, data, version: pkg.version, patience })
    // The lock is the kernel's there too.
    expect(await readFile(join(data, '.data.lock'), 'utf8')).toStartWith('flock\n')
  },
  300_000,
)
