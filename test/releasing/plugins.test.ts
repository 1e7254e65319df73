/** A build does what its plugins are for, or fails. */
import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buildWith, withoutColors } from '../../scripts/build/plugins.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'

const folder = folderOfFile()

test('a plugin of which a part matches nothing fails the build; one that is used does not', async () => {
  const entry = join(folder, 'entry.ts')
  await writeFile(entry, `try { console.log(require('supports-color').level) } catch {}\n`)
  const { outputs } = await buildWith({ withoutColors }, { entrypoints: [entry] })
  expect(await outputs[0]!.text()).not.toContain('FORCE_COLOR')

  await writeFile(entry, 'console.log(1)\n')
  const unused = await failure(buildWith({ withoutColors }, { entrypoints: [entry] }))
  expect(unused.message).toMatch(/withoutColors .*supports-color.*withoutColors/)
})
