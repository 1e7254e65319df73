/** `./scripts/svc`, as people put it on their PATH. */
import { expect, test } from 'bun:test'
import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { version } from '../../src/version.ts'
import { folderOfTest } from '../support/folder.ts'

const script = fileURLToPath(new URL('../../scripts/svc', import.meta.url))

test('a link on the PATH does what the script does, by a relative link to that one too', async () => {
  const home = folderOfTest()
  await mkdir(join(home, 'bin'))
  await symlink(script, join(home, 'linked'))
  await symlink('../linked', join(home, 'bin/svc'))
  const child = Bun.spawn(['sh', '-c', 'svc --version'], {
    cwd: home,
    env: { PATH: `${join(home, 'bin')}:${process.env.PATH}`, HOME: home },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect({ status: await child.exited, out, err }).toEqual({ status: 0, out: `${version}\n`, err: '' })
})
