import { expect, test } from 'bun:test'
import { mkdirSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { configFromValues } from '../../src/config.ts'
import { examine } from '../../src/doctor/examine.ts'
import { canMount, smallDisk } from '../faults/support/mounts.ts'

const findings = async (basePath: string) => {
  const config = configFromValues({
    basePath,
    port: 0,
    upstreamUrl: 'http://127.0.0.1:9',
    cdnUrl: 'http://127.0.0.1:9',
  })
  const { findings } = await examine({ config, version: '0', deadlineMs: 500 })
  return findings
    .filter(({ subject }) => subject === 'disk')
    .map(({ check, severity }) => `${check} ${severity}`)
}

test.skipIf(process.platform !== 'linux')('a file system that does not say how much is free', async () => {
  expect(await findings('/proc')).toEqual(['space ok'])
})

test.skipIf(!canMount)(
  'a disk that fills up: enough, little, none (skipped where mounting is forbidden)',
  async () => {
    const disk = smallDisk('400m')
    try {
      const dir = join(disk.dir, 'data')
      mkdirSync(dir, { mode: 0o700 })
      const fill = (name: string, left: number) => {
        const { bavail, bsize } = statfsSync(disk.dir)
        writeFileSync(join(disk.dir, name), Buffer.alloc(bavail * bsize - left))
      }
      expect(await findings(dir)).toEqual(['space ok'])
      fill('much', 150_000_000)
      expect(await findings(dir)).toEqual(['space warning'])
      fill('nearly all', 5_000_000)
      expect(await findings(dir)).toEqual(['space error'])
    } finally {
      disk.unmount()
    }
  },
)
