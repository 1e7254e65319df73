/** The package installs and starts as its page says; `package.long.test.ts` looks at all of it. */
import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { installed } from './support/agents.ts'
import { ended } from './support/ended.ts'
import { folderOfFile } from './support/folder.ts'
import { pack, projectWith } from './support/package.ts'

const folder = folderOfFile()
const project = join(folder, 'project')
/** The library needs Node 24, which this machine may not have. */
const node24 = await installed('node@24', 'node')

const program = `import { Svc } from 'svc'
await using svc = await Svc.open({ basePath: process.argv[2] })
console.log(JSON.stringify(await svc.sessions()))
`

test.skipIf(!Bun.which('npm'))(
  'npm packs this commit, and it installs (skipped where there is no npm)',
  async () => {
    await projectWith(await pack(join(folder, 'sources')), project)
    await writeFile(join(project, 'three-lines.mjs'), program)
  },
)

for (const [name, runtime] of [
  ['Bun', process.execPath],
  ['Node 24', 'why' in node24 ? undefined : join(node24.folder, 'node_modules/.bin/node')],
] as const)
  test.skipIf(!Bun.which('npm') || runtime === undefined)(
    `three lines run on ${name} (skipped where npm cannot install it)`,
    async () => {
      const run = await ended([runtime!, 'three-lines.mjs', join(folder, name)], {
        cwd: project,
        env: { HOME: folder, PATH: process.env.PATH ?? '' },
      })
      expect(run).toEqual({ status: 0, stdout: '[]\n', stderr: '' })
    },
  )
