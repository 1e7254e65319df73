/** scripts/install.sh with a release that says its version and no more: where it is led, and what it tells to type. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer as createPlain, type Server } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { checkSignature, signSums } from '../../scripts/releasing/signature.ts'
import { certificate, privateKey } from '../platform/certificate.ts'
import { ended } from '../support/ended.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile, folderOfTest } from '../support/folder.ts'
import { makeKey, type SigningKey } from '../support/signing-key.ts'

const script = resolve(import.meta.dir, '../../scripts/install.sh')
const folder = folderOfFile()
const release = join(folder, 'release')
const target = join(folder, 'bin')
const program = '#!/bin/sh\necho 1.2.3\n'

const tools =
  'cat chmod cp dirname getconf grep gzip id ldd ls mkdir mktemp mv rm rmdir sed sh sha256sum uname'.split(
    ' ',
  )

/** A folder with the tools and these scripts. */
function toolbox(name: string, stand: Record<string, string>): string {
  const box = join(folder, name)
  mkdirSync(box)
  for (const tool of tools) symlinkSync(Bun.which(tool)!, join(box, tool))
  for (const [tool, code] of Object.entries(stand))
    writeFileSync(join(box, tool), `#!/bin/sh\n${code}\n`, { mode: 0o755 })
  return box
}

const install = (to: string, env: Record<string, string>, from = release) =>
  ended(['/bin/sh', script, '--from', from, '--to', to], {
    cwd: folder,
    env: { PATH: process.env.PATH!, HOME: folder, NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1', ...env },
    withinMs: 60_000,
  })

const servers: Server[] = []
const portOf = async (server: Server) => {
  servers.push(server)
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
  return (server.address() as AddressInfo).port
}
let secure = ''
let asked: string[] = []

beforeAll(async () => {
  mkdirSync(release)
  const names = ['svc-linux-x64', 'svc-linux-arm64', 'svc-linux-x64-musl', 'svc-linux-arm64-musl']
  const sum = createHash('sha256').update(program).digest('hex')
  for (const name of names) writeFileSync(join(release, name), program)
  const sums = names.map(name => `${sum}  ${name}\n`).join('')
  writeFileSync(join(release, 'SHA256SUMS'), sums)
  const files: Record<string, string> = { SHA256SUMS: sums, 'install.sh': readFileSync(script, 'utf8') }
  const content = (path: string) => files[path.split('/').at(-1)!] ?? program
  const plain = await portOf(
    createPlain((request, response) => {
      asked.push(request.url!)
      response.end(content(request.url!))
    }),
  )
  const app = createServer({ cert: certificate, key: privateKey }, (request, response) => {
    const [, way, name] = request.url!.split('/')
    const leads: Record<string, string> = {
      round: `/kept/${name}`,
      away: `http://127.0.0.1:${plain}/${name}`,
    }
    const location = leads[way!]
    if (location) response.writeHead(302, { location, 'content-length': 0 }).end()
    else response.end(content(request.url!))
  })
  secure = `https://127.0.0.1:${await portOf(app)}`
})
afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
})

const onLinux = process.platform === 'linux'
const wgets: Record<string, string | null> = {
  'GNU wget': Bun.which('wget'),
  'busybox wget': Bun.which('busybox') && `${Bun.which('busybox')} wget`,
}
for (const [name, wget] of Object.entries(wgets)) {
  test.skipIf(!wget || !onLinux)(
    `what ${name} brings from an address without encryption, where it was led by one with it, is not used (skipped without it)`,
    async () => {
      // The certificate is for another name than this machine's.
      const box = toolbox(name, { wget: `exec ${wget} --no-check-certificate "$@"` })
      const good = await install(target, { PATH: box }, `${secure}/round`)
      expect(good.stdout).toContain(`svc 1.2.3 is in ${target}/svc\n`)
      expect([good.status, readdirSync(target)]).toEqual([0, ['svc']])
      rmSync(target, { recursive: true })

      asked = []
      const led = await install(target, { PATH: box }, `${secure}/away`)
      expect(led.stderr).toBe(
        `error: ${secure}/away/SHA256SUMS leads to an address without encryption, so it is not used\nNothing was changed.\n`,
      )
      expect([led.status, readdirSync(folder).includes('bin'), asked]).toEqual([1, false, ['/SHA256SUMS']])

      const none = await install(target, { PATH: box }, 'https://127.0.0.1:1')
      expect(none.stderr).toMatch(
        /refused[\s\S]*\nerror: https:\/\/127.0.0.1:1\/SHA256SUMS could not be down/,
      )
    },
  )
}

test('one file is installed: checked by the sums beside it, or as it is where there are none', async () => {
  const to = join(folder, 'from-file')
  const alone = join(folder, 'alone')
  mkdirSync(alone)
  writeFileSync(join(alone, 'svc'), program)
  for (const from of [join(release, 'svc-linux-x64'), join(alone, 'svc')]) {
    expect(await install(to, {}, from)).toMatchObject({ status: 0, stderr: '' })
    expect(readdirSync(to)).toEqual(['svc'])
    rmSync(to, { recursive: true })
  }
  writeFileSync(join(alone, 'SHA256SUMS'), `${'0'.repeat(64)}  svc\n`)
  expect((await install(to, {}, join(alone, 'svc'))).status).toBe(1)
})

test('the line of the README installs what is at an address, and the other what is in a folder', async () => {
  const readme = readFileSync(resolve(import.meta.dir, '../../scripts/README.md'), 'utf8')
  const [, fromAddress = ''] = /^(curl .*install\.sh.*)$/m.exec(readme) ?? []
  const [, fromFolder = ''] = /`(sh FOLDER[^`]*)`/.exec(readme) ?? []
  const home = folderOfTest()
  const bin = toolbox('of the reader', { curl: `exec ${Bun.which('curl')} --insecure "$@"` })
  const dir = join(folder, 'with its installer')
  cpSync(release, dir, { recursive: true })
  // It also has an address, as that of a release has, and nothing is there.
  const elsewhere = readFileSync(script, 'utf8').replace("address=''", "address='https://127.0.0.1:1'")
  writeFileSync(join(dir, 'install.sh'), elsewhere)
  for (const [at, line] of [
    fromAddress.replaceAll('ADDRESS', `${secure}/kept`),
    fromFolder.replace('FOLDER', `'${dir}'`),
  ].entries()) {
    const to = join(home, `${at}`)
    // Nobody's folder of programs for all may be written by this test.
    const { status, stdout, stderr } = await ended(['/bin/sh', '-c', `${line} --to ${to}`], {
      cwd: home,
      env: { PATH: bin, HOME: home, NO_PROXY: '127.0.0.1' },
      withinMs: 60_000,
    })
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toContain(`svc 1.2.3 is in ${to}/svc\n`)
  }
  expect(readdirSync(home).sort()).toEqual(['0', '1'])
})

describe.skipIf(!Bun.which('ssh-keygen'))('a signature (skipped without ssh-keygen)', () => {
  let keys: SigningKey[]
  beforeAll(async () => {
    keys = await Promise.all(['first', 'second', 'stranger'].map(name => makeKey(folder, name)))
  })

  /** A signed release, and sources whose installer knows these signers. */
  async function signed(key: string, signers: string[], revoked: string[] = []) {
    const dir = folderOfTest()
    const [from, sources] = [join(dir, 'release'), join(dir, 'sources')]
    cpSync(release, from, { recursive: true })
    await signSums(from, key)
    mkdirSync(join(sources, 'scripts/releasing'), { recursive: true })
    writeFileSync(join(sources, 'scripts/releasing/signers'), ['# Who', ...signers, ''].join('\n'))
    writeFileSync(join(sources, 'scripts/releasing/revoked'), ['# Who no longer', ...revoked, ''].join('\n'))
    cpSync(script, join(sources, 'scripts/install.sh'))
    const to = join(dir, 'bin')
    return {
      ...{ from, sources, sums: join(from, 'SHA256SUMS'), signature: join(from, 'SHA256SUMS.sig') },
      async install(env: Record<string, string> = {}, where = from) {
        rmSync(to, { recursive: true, force: true })
        const { status, stdout, stderr } = await ended(
          ['/bin/sh', join(sources, 'scripts/install.sh'), '--from', where, '--to', to],
          { cwd: folder, env: { PATH: process.env.PATH!, HOME: folder, ...env }, withinMs: 60_000 },
        )
        const isThere = Bun.spawnSync(['test', '-e', join(to, 'svc')]).success
        expect(isThere).toBe(status === 0)
        return { status, said: `${stdout}${stderr}` }
      },
    }
  }
  const good = { status: 0, said: expect.stringContaining("The signature is by svc's key.\n") }
  const bad = { status: 1, said: expect.stringContaining("not signed by svc's key") }
  const unchecked = { status: 0, said: expect.stringContaining('The signature was not checked: ') }
  const refused = { status: 1, said: expect.stringContaining('the signature cannot be checked: ') }

  test('by a key that may sign is good, and while keys change both are', async () => {
    const [first, second] = keys
    for (const key of [first!, second!]) {
      const { from, install, sources } = await signed(key.path, [first!.signer, second!.signer])
      await checkSignature(from, sources)
      expect(await install({ SVC_SIGNED: '1' })).toEqual(good)
    }
  })

  test('by another key, for something else, of other sums, or by a revoked key installs nothing', async () => {
    const [first, second, stranger] = keys
    const both = [first!.signer, second!.signer]
    const other = await signed(stranger!.path, both)
    const revoked = await signed(first!.path, both, [first!.public])
    const tampered = await signed(first!.path, both)
    writeFileSync(
      tampered.sums,
      readFileSync(tampered.sums, 'utf8').replace(/^[0-9a-f]{64}/gm, '0'.repeat(64)),
    )
    const elsewhere = await signed(first!.path, both)
    rmSync(elsewhere.signature)
    const sign = ['ssh-keygen', '-q', '-Y', 'sign', '-f', first!.path, '-n', 'git', elsewhere.sums]
    expect(Bun.spawnSync(sign).success).toBe(true)
    for (const { from, install, sources } of [other, revoked, tampered, elsewhere]) {
      expect((await failure(checkSignature(from, sources))).message).toContain('scripts/releasing/signers')
      expect(await install()).toEqual(bad)
    }
    const still = await signed(second!.path, both, [first!.public])
    expect(await still.install()).toEqual(good)
  })

  test('that is not there, or that nothing here can check, is said, and an error where one is asked for', async () => {
    const [first] = keys
    const stripped = await signed(first!.path, [first!.signer])
    rmSync(stripped.signature)
    expect((await failure(checkSignature(stripped.from, stripped.sources))).message).toContain(
      'SHA256SUMS.sig',
    )
    const keyless = await signed(first!.path, [])
    const { install } = await signed(first!.path, [first!.signer])
    const file = join(folderOfTest(), 'svc')
    writeFileSync(file, program)
    const box = toolbox('without ssh', {})
    for (const [from, env, where] of [
      [stripped, {}],
      [keyless, {}],
      [{ install }, { PATH: box }],
      [{ install }, {}, file],
    ] as const) {
      expect(await from.install(env, where)).toEqual(unchecked)
      expect(await from.install({ ...env, SVC_SIGNED: '1' }, where)).toEqual(refused)
    }
    // From an address nobody is told that it was not checked: whoever stands in between could take it away.
    const fetching = 'for url; do :; done; case $url in *.sig) exit 22 ;; esac'
    const between = {
      curl: `${fetching}; while [ "$1" != -o ]; do shift; done; cp "${release}/\${url##*/}" "$2"`,
    }
    const strippedAway = { PATH: toolbox('between', between) }
    symlinkSync(Bun.which('ssh-keygen')!, join(folder, 'between/ssh-keygen'))
    expect(await install(strippedAway, 'https://example.org/svc')).toMatchObject({
      status: 1,
      said: expect.stringContaining('SHA256SUMS.sig could not be downloaded'),
    })
  })
})

test('the one before stays, as what it was, until another takes its place', async () => {
  const to = join(folderOfTest(), 'bin')
  const read = (name: string) => readFileSync(join(to, name), 'utf8')
  const older = program.replace('1.2.3', '1.2.2')
  mkdirSync(to)
  writeFileSync(join(to, 'svc'), older, { mode: 0o755 })
  const first = await install(to, {})
  expect(first).toMatchObject({ status: 0, stdout: expect.stringContaining(`${to}/svc.previous backup `) })
  // The same once more is no other.
  const again = await install(to, {})
  expect([again.status, again.stdout.includes('svc.previous')]).toEqual([0, false])
  expect([read('svc'), read('svc.previous')]).toEqual([program, older])
  rmSync(join(to, 'svc'))
  symlinkSync('/nowhere/svc', join(to, 'svc'))
  expect((await install(to, {})).status).toBe(0)
  expect([read('svc'), read('svc.previous')]).toEqual([program, older])
})

test('a folder without a release, or none, says how one is made', async () => {
  const empty = join(folder, 'empty')
  mkdirSync(empty)
  for (const from of [empty, join(folder, 'nowhere')]) {
    const { status, stderr } = await install(target, {}, from)
    expect([status, stderr.includes('npm run build -- --all')]).toEqual([1, true])
  }
  const nowhere = await ended(['/bin/sh', script, '--to', target], {
    cwd: folder,
    env: { PATH: process.env.PATH!, HOME: folder },
    withinMs: 60_000,
  })
  expect([nowhere.status, nowhere.stderr.includes('npm run build -- --all')]).toEqual([1, true])
  expect(readdirSync(folder)).not.toContain('bin')
})

test.skipIf(!onLinux)(
  'a wget that does not show where it was led is not trusted with encryption',
  async () => {
    const wget = `while [ "$1" != -O ]; do shift; done; cat ${release}/SHA256SUMS >"$2"`
    const box = toolbox('silent', { wget })
    const result = await install(target, { PATH: box }, secure)
    expect(result.stderr).toStartWith(
      'error: this wget does not show whether it was led away from encryption\n',
    )
    expect([result.status, readdirSync(folder).includes('bin')]).toEqual([1, false])
  },
)

describe.skipIf(!onLinux)('the lines to paste do what they say, whatever the folder is called', () => {
  const names = ['plain', 'with a blank', 'it’s “odd”', `'"$HOME"'`, 'a$b`c"d', String.raw`back\slash\\n`]
  const shells: [shell: string, profile: string, interactive: string[]][] = [
    ['sh', '.profile', ['-c', '. "$HOME/.profile"; command -v svc']],
    ['bash', '.bashrc', ['-c', '. "$HOME/.bashrc"; command -v svc']],
    ['zsh', '.zshrc', ['-c', '. "$HOME/.zshrc"; command -v svc']],
    ['fish', '', ['-c', 'command -v svc']],
  ]
  for (const [shell, profile, again] of shells) {
    const path = Bun.which(shell)
    test.skipIf(!path)(`${shell} (skipped without it)`, async () => {
      // To fish a backslash between single quotes is no mere letter.
      const fitting = names.filter(name => shell !== 'fish' || !name.includes('\\'))
      for (const [at, name] of fitting.entries())
        for (const isAtHome of [true, false]) {
          const home = join(folder, `home-${shell}-${at}-${isAtHome}`)
          const to = join(isAtHome ? home : folder, `${shell}-${at}`, name)
          mkdirSync(home)
          const env = { PATH: '/usr/bin:/bin', HOME: home, SHELL: path! }
          const { stdout, status } = await install(to, env)
          expect(status).toBe(0)
          const lines = stdout.split('\n')
          const [add, next] = [lines.at(-3)!.trim(), /: (.* openapi --sandbox)$/.exec(lines.at(-2)!)?.[1]]
          expect(add.endsWith(profile === '' ? '"' : ` >> ~/${profile}`)).toBe(true)
          const run = (args: string[]) => ended([path!, ...args], { cwd: home, env, withinMs: 60_000 })
          expect(await run(['-c', next!])).toEqual({ status: 0, stdout: '1.2.3\n', stderr: '' })
          expect(await run(['-c', add])).toEqual({ status: 0, stdout: '', stderr: '' })
          expect((await run(again)).stdout).toBe(`${to}/svc\n`)
        }
    })
  }
})
