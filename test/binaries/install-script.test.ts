/** scripts/install.sh with a release that says its version and no more: where it is led, and what it tells to type. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer as createPlain, type Server } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { certificate, privateKey } from '../platform/certificate.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'

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
  const content = (path: string) => (path.endsWith('SHA256SUMS') ? sums : program)
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
          const [add, next] = [lines[2]!.trim(), /: (.* openapi --sandbox)$/.exec(lines[3]!)?.[1]]
          expect(add.endsWith(profile === '' ? '"' : ` >> ~/${profile}`)).toBe(true)
          const run = (args: string[]) => ended([path!, ...args], { cwd: home, env, withinMs: 60_000 })
          expect(await run(['-c', next!])).toEqual({ status: 0, stdout: '1.2.3\n', stderr: '' })
          expect(await run(['-c', add])).toEqual({ status: 0, stdout: '', stderr: '' })
          expect((await run(again)).stdout).toBe(`${to}/svc\n`)
        }
    })
  }
})
