import { expect, test } from 'bun:test'
import { mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { svcCommand } from '../../src/inspect/advised-commands.ts'
import { folderOfTest } from '../support/folder.ts'

test('a command that is advised names the directory, and the sandbox where it is one', async () => {
  const dir = folderOfTest()
  expect(svcCommand('login', join(homedir(), '.svc'))).toBe('svc login')
  expect(svcCommand('login', dir)).toBe(`svc login -d ${dir}`)
  await mkdir(join(dir, 'sandbox'))
  expect(svcCommand('login', dir)).toBe(`svc login --sandbox -d ${dir}`)
  expect(svcCommand('sandbox', dir)).toBe(`svc sandbox -d ${dir}`)
  const unmade = join(homedir(), '.svc-sandbox')
  expect(svcCommand('login', unmade, true)).toBe('svc login --sandbox')
  expect(svcCommand('login', `${unmade}-2`, true)).toBe(`svc login --sandbox -d ${unmade}-2`)
})
