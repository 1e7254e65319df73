import { test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pkg from '../../package.json' with { type: 'json' }
import { smoke } from '../../scripts/smoke.ts'
import { svcProgram } from '../support/svc-program.ts'

test('the main job: a whole conversation, a kill -9, and everything is still there', async () => {
  const data = await mkdtemp(join(tmpdir(), 'svc-conversation-'))
  try {
    await smoke({ command: svcProgram, data, version: pkg.version })
  } finally {
    await rm(data, { recursive: true, force: true })
  }
})
