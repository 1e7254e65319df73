/** The user of a service of the machine, and the folders that it gets. */
import { beforeEach, expect, test } from 'bun:test'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ensureFolders, findAccount, parseServiceUser } from '../../src/service/account.ts'
import { formatPlist } from '../../src/service/launchd.ts'
import type { ServicePlan } from '../../src/service/plan.ts'
import { formatUnit } from '../../src/service/systemd.ts'
import { folderOfTest } from '../support/folder.ts'

const asRoot = process.platform === 'linux' && process.geteuid?.() === 0
const named = (name: string) => `${name}${asRoot ? '' : ' (Linux and root only)'}`
let home = ''
beforeEach(() => {
  home = folderOfTest()
})

test('an installed service of either manager tells its user, also one of version 0.1.0', () => {
  const plan: ServicePlan = {
    ...{ name: 'svc', scope: 'system', command: ['/bin/svc', 'openapi', 'User=eve'], dataDir: '/data' },
    ...{ writtenFolders: [], bindsLowPort: false, drain: 5, notifies: true, environment: {} },
    account: { name: 'bob', uid: 990, gid: 990, home: '/' },
  }
  const { account: _, ...noAccount } = plan
  expect(parseServiceUser(formatUnit(plan, { lib: '/var/lib' }))).toBe('bob')
  expect(parseServiceUser(formatPlist(plan, '/log'))).toBe('bob')
  expect(parseServiceUser(formatUnit(noAccount, { lib: '/var/lib' }))).toBeUndefined()
  expect(
    parseServiceUser(
      '# Written by svc service install, which writes it anew each time.\n[Service]\nUser=svc\n',
    ),
  ).toBe('svc')
})

test.skipIf(!asRoot)(named('root is refused, and so is a name that nobody has'), async () => {
  for (const name of ['root', '0', 'nobody-of-that-name'])
    expect(await findAccount(name, 'linux', '/var/lib/svc').catch(error => error.code)).toBe(
      'invalid_arguments',
    )
  expect(await findAccount('daemon', 'linux', '/')).toMatchObject({ name: 'daemon', uid: 1 })
})

test.skipIf(!asRoot)(
  named('new folders belong to the user, who may enter them; those of others are left'),
  async () => {
    const daemon = await findAccount('daemon', 'linux', '/')
    const [data, media] = [join(home, 'deep', 'data'), join(home, 'media')]
    await ensureFolders(daemon, [data, media], path => path === media)
    const made = await stat(data)
    expect([made.uid, made.mode & 0o777, (await stat(join(home, 'deep'))).mode & 0o555]).toEqual([
      1, 0o700, 0o555,
    ])
    expect(await stat(media).catch(error => error.code)).toBe('ENOENT')
    await ensureFolders(daemon, [data], () => false)
    await mkdir(media)
    // systemd would give such a folder away with all that is in it.
    const refused = await ensureFolders(daemon, [media], () => true).catch(error => error.code)
    expect([refused, (await stat(media)).uid]).toEqual(['forbidden', 0])
  },
)
