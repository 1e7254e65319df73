/** Which services are found to be svc's, among all that lie beside them. */
import { expect, test } from 'bun:test'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { installedNames, managerOf } from '../../src/service/install.ts'
import { definitionOf, type ServicePlan } from '../../src/service/plan.ts'

for (const platform of ['linux', 'darwin']) {
  test(`${platform}: those that svc wrote, by their names, and nothing else that lies there`, async () => {
    const home = await mkdtemp(join(tmpdir(), 'svc-installed-'))
    try {
      const folders = { home, config: join(home, '.config'), etc: '/none', lib: '/none', library: '/none' }
      const of = (name: string) => managerOf(platform, { name, scope: 'user' }, folders, [])
      const usual = of('svc')
      expect(await installedNames(usual)).toEqual([])
      const folder = dirname(definitionOf(usual))
      await mkdir(folder, { recursive: true })
      for (const name of ['svc', 'work', 'Not-A-Name']) {
        const plan: ServicePlan = {
          ...{ name, scope: 'user', command: ['/bin/svc', 'openapi'], dataDir: join(home, name) },
          ...{ writes: [], lowPort: false, notifies: false, environment: {} },
        }
        const manager = of(name)
        const { path, text } = manager.files.of(plan).at(-1)!
        await writeFile(path, text)
      }
      await writeFile(definitionOf(of('theirs')), 'somebody else’s')
      await symlink('/dev/null', definitionOf(of('masked')))
      await symlink('/not/there', definitionOf(of('gone')))
      await mkdir(definitionOf(of('folder')))
      expect(await installedNames(usual)).toEqual(['svc', 'work'])
    } finally {
      await rm(home, { recursive: true, force: true })
    }
  })
}
