import { test } from 'bun:test'
import pkg from '../../package.json' with { type: 'json' }
import { smoke } from '../../scripts/smoke.ts'
import { folderOfTest } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'

test('the main job: a whole conversation, a kill -9, and everything is still there', async () => {
  const data = folderOfTest()
  await smoke({ command: svcProgram, data, version: pkg.version })
})
