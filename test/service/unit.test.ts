/** The systemd units, before systemd's own judges where the machine has them. */
import { expect, test } from 'bun:test'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ServicePlan } from '../../src/service/plan.ts'
import { formatSocketUnit, formatUnit, quotePath } from '../../src/service/systemd.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'

const found = Bun.which('systemd-analyze')
// It judges files since version 250.
const judges = found && Bun.spawnSync([found, '--help']).stdout.includes('--offline')
const analyze = judges ? found : undefined
const judged = (name: string) => `${name}${analyze ? '' : ' (no systemd-analyze here that judges files)'}`
const folder = folderOfFile()

const plan = (more: Partial<ServicePlan> = {}): ServicePlan => ({
  ...{ name: 'svc', scope: 'system', dataDir: '/var/lib/svc' },
  // A program that every machine has, and in nobody's home: the project may lie in one.
  command: ['/bin/sh', 'openapi', '-d', '/var/lib/svc'],
  ...{ writtenFolders: [], bindsLowPort: false, drain: 5, notifies: true, environment: {} },
  // Whom every machine has.
  account: { name: 'daemon', uid: 1, gid: 1, home: '/' },
  ...more,
})
const { account: _, ...noAccount } = plan()
const users: ServicePlan = { ...noAccount, scope: 'user', dataDir: '/home/bob/.svc' }

const units: Readonly<Record<string, ServicePlan>> = {
  'the usual one': plan(),
  'folders elsewhere': plan({ dataDir: '/srv/my data 100%', writtenFolders: ['/srv/media'] }),
  'a data directory in a home': plan({ dataDir: '/home/bob/.svc' }),
  'a low port': plan({ bindsLowPort: true }),
  'a folder that systemd does not make by its name': plan({ dataDir: '/var/lib/my "data"' }),
  'without a word to systemd': plan({ notifies: false }),
}

/** In tenths. */
const dearer: Record<string, number> = { 'a low port': 14, 'a data directory in a home': 12 }

async function systemdSays(args: string[], text: string, socket?: string): Promise<string> {
  const path = join(folder, `${crypto.randomUUID()}`, 'svc.service')
  await mkdir(join(path, '..'))
  await writeFile(path, text)
  if (socket !== undefined) await writeFile(join(path, '..', 'svc.socket'), socket)
  const { stdout, stderr, status } = await ended([analyze!, '--no-pager', ...args, path], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' },
  })
  return `${stdout}${stderr}status ${status}\n`
}

test.skipIf(!analyze)(judged('systemd finds nothing to say of any unit'), async () => {
  for (const [name, one] of [...Object.entries(units), ['of a user', users] as const]) {
    const said = await systemdSays(
      ['verify'],
      formatUnit(one, { lib: '/var/lib', environmentPath: '/etc/svc/svc.env' }),
    )
    // Of other units of the machine it may.
    const ours = said.split('\n').filter(line => line.includes('svc.service'))
    expect([name, ours]).toEqual([name, []])
  }
  const broken = await systemdSays(
    ['verify'],
    formatUnit(plan(), { lib: '/var/lib' }).replace('UMask=', 'UMasc='),
  )
  expect(broken).toMatch(/Unknown key.* 'UMasc'/)
})

test.skipIf(!analyze)(judged('systemd finds nothing to say of sockets either'), async () => {
  for (const one of [plan, (more: Partial<ServicePlan>) => ({ ...users, ...more })]) {
    const held = one({ heldAddresses: ['127.0.0.1:18181', '[::1]:18182'] })
    const unit = formatUnit(held, { lib: '/var/lib' })
    const judge = async (socket: string) => {
      const said = await systemdSays(['verify'], unit, socket)
      return said.split('\n').filter(line => /svc\.(service|socket)/.test(line))
    }
    expect(await judge(formatSocketUnit(held))).toEqual([])
    expect(await judge(formatSocketUnit({ ...held, heldAddresses: ['nowhere'] }))).not.toEqual([])
    expect(unit).toContain('\nRequires=svc.socket\n')
    expect(formatUnit(one({}), { lib: '/var/lib' })).not.toContain('.socket')
  }
})

test.skipIf(!analyze)(
  judged('a unit of the machine is exposed to 1.1 of 10, and a little more where it needs more'),
  async () => {
    for (const [name, one] of Object.entries(units)) {
      const said = await systemdSays(
        ['security', '--offline=true', `--threshold=${dearer[name] ?? 11}`],
        formatUnit(one, { lib: '/var/lib' }),
      )
      expect(said).toContain('Overall exposure level for svc.service: ')
      expect([name, said.slice(said.indexOf('Overall'))]).toEqual([
        name,
        expect.stringContaining('status 0\n'),
      ])
    }
    const open = formatUnit(plan(), { lib: '/var/lib' }).replace(
      /^(Protect|Private|Restrict|System).*\n/gm,
      '',
    )
    expect(await systemdSays(['security', '--offline=true', '--threshold=19'], open)).toContain('status 1\n')
  },
)

test('the machine’s is locked in and has a user and a folder of its own; a user’s has what his systemd can do', () => {
  const [machines, own] = [plan(), users].map(one => formatUnit(one, { lib: '/var/lib' }).split('\n'))
  expect(machines).toEqual(
    expect.arrayContaining(['User=daemon', 'StateDirectory=svc', 'ProtectSystem=strict', 'ProtectHome=yes']),
  )
  expect(machines).toContain('WantedBy=multi-user.target')
  for (const both of [machines, own])
    expect(both).toEqual(
      expect.arrayContaining([
        'Type=notify',
        'Restart=on-failure',
        'RestartPreventExitStatus=2',
        'NoNewPrivileges=yes',
        'LimitCORE=0',
        'MemoryMax=75%',
        'Environment=BUN_CONFIG_MAX_HTTP_REQUESTS=60000',
      ]),
    )
  expect(own!.filter(line => /^(User|StateDirectory|Protect|Private|After|Wants|Capab)/.test(line))).toEqual(
    [],
  )
  expect(own).toContain('WantedBy=default.target')
  // The runtime writes code.
  expect([...machines!, ...own!].join('\n')).not.toContain('MemoryDenyWriteExecute')
})

test('what lies elsewhere may be written to, and a home is seen when something of it lies there', () => {
  const linesOf = (one: ServicePlan) =>
    formatUnit(one, { lib: '/var/lib' })
      .split('\n')
      .filter(line =>
        /^(ReadWrite|StateD|ProtectHome|Capability|PrivateUsers|Type|EnvironmentFile)/.test(line),
      )
  const closed = ['CapabilityBoundingSet=', 'PrivateUsers=yes']
  expect(linesOf(units['folders elsewhere']!)).toEqual([
    ...['Type=notify', 'ProtectHome=yes', 'ReadWritePaths="/srv/my data 100%%" /srv/media'],
    ...closed,
  ])
  expect(linesOf(units['a data directory in a home']!)).toEqual([
    ...['Type=notify', 'ProtectHome=read-only', 'ReadWritePaths=/home/bob/.svc'],
    ...closed,
  ])
  expect(linesOf(units['a low port']!)).toEqual([
    ...['Type=notify', 'StateDirectory=svc', 'StateDirectoryMode=0700', 'ProtectHome=yes'],
    'CapabilityBoundingSet=CAP_NET_BIND_SERVICE',
  ])
  expect(linesOf(plan({ notifies: false }))[0]).toBe('Type=exec')
  // StateDirectory= would take two words for two folders, and knows no quotes.
  for (const name of ['a b', 'a%b', 'a:b', '-a', '"a"', '机器人']) {
    const lines = linesOf(plan({ dataDir: `/var/lib/${name}` }))
    expect([name, lines.filter(line => line.startsWith('StateD'))]).toEqual([name, []])
    expect(lines.join()).toContain(`ReadWritePaths=${quotePath(`/var/lib/${name}`)},`)
  }
})
