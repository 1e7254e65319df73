import { expect, test } from 'bun:test'
import { mkdir, symlink } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { folderOfTest } from '../support/folder.ts'

const module = pathToFileURL(join(import.meta.dir, '../../src/media/own-files.ts')).href

/** What a process that works in `cwd` is told. */
async function workingFolders(cwd: string, { home, data }: { home: string; data: string }) {
  const code = `const { listWorkingFolders } = await import(${JSON.stringify(module)})
    console.log(JSON.stringify(await listWorkingFolders(${JSON.stringify(data)})))`
  const child = Bun.spawn([process.execPath, '-e', code], {
    ...{ cwd, stdout: 'pipe', stderr: 'inherit' },
    env: { ...process.env, HOME: home, USERPROFILE: home },
  })
  return JSON.parse(await new Response(child.stdout).text())
}

test('the working folder is open, unless it is a disk, or holds the home or the data, by whatever way', async () => {
  const top = folderOfTest()
  const folders = { home: join(top, 'users', 'home'), data: join(top, 'srv', 'svc', 'data') }
  const project = join(folders.home, 'project')
  for (const path of [project, folders.data]) await mkdir(path, { recursive: true })
  await symlink(folders.home, join(top, 'way'))
  const closed = [
    join(top, 'users'),
    join(top, 'srv'),
    join(top, 'srv', 'svc'),
    folders.data,
    join(top, 'way'),
  ]
  for (const cwd of [sep, top, folders.home, ...closed])
    expect([cwd, await workingFolders(cwd, folders)]).toEqual([cwd, []])
  expect(await workingFolders(project, folders)).toEqual([project])
  expect(await workingFolders(join(top, 'way', 'project'), folders)).toEqual([project])
})
