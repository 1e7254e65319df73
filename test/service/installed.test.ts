/** Which services are found to be svc's, among all that lie beside them. */
import { expect, test } from 'bun:test'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { managerOf } from '../../src/service/by-platform.ts'
import { installedNames } from '../../src/service/installed.ts'
import type { ServicePlan } from '../../src/service/plan.ts'

for (const platform of ['linux', 'darwin']) {
  test(`${platform}: those that svc wrote, by their names, and nothing else that lies there`, async () => {
    const home = await mkdtemp(join(tmpdir(), 'svc-installed-'))
    try {
      const folders = { home, config: join(home, '.config'), etc: '/none', lib: '/none', library: '/none' }
      const of = (name: string) => managerOf(platform, { name, scope: 'user' }, folders, [])
      const usual = of('svc')
      expect(await installedNames(usual)).toEqual([])
      const folder = dirname(usual.path)
      await mkdir(folder, { recursive: true })
      for (const name of ['svc', 'work', 'Not-A-Name']) {
        const plan: ServicePlan = {
          ...{ name, scope: 'user', command: ['/bin/svc', 'openapi'], dataDir: join(home, name) },
          ...{ writes: [], lowPort: false, notifies: false, environment: {} },
        }
        const manager = of(name)
        const { path, text } = manager.files(plan).at(-1)!
        await writeFile(path, text)
      }
      await writeFile(of('theirs').path, 'somebody else’s')
      await symlink('/dev/null', of('masked').path)
      await symlink('/not/there', of('gone').path)
      await mkdir(of('folder').path)
      expect(await installedNames(usual)).toEqual(['svc', 'work'])
    } finally {
      await rm(home, { recursive: true, force: true })
    }
  })
}
