/** scripts/install.sh, in the shells and with the tools that people have. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import process from 'node:process'
import pkg from '../../package.json' with { type: 'json' }
import { certificate, privateKey } from '../platform/certificate.ts'
import { type Ended, ended } from '../support/ended.ts'
import { until } from '../support/until.ts'

const script = resolve(import.meta.dir, '../../scripts/install.sh')
const busybox = Bun.which('busybox')

/** What the installer calls, without what fetches and what checks sums. */
const plainTools =
  'cat chmod cp dirname getconf grep gzip id ldd ls mkdir mktemp mv rm rmdir sed sh uname'.split(' ')

/** How the server answers: as it should, cut off in the middle, or never to the end. */
type Way = 'whole' | 'cut' | 'slow'

export function installTests(release: string, folder: string): void {
  const target = join(folder, 'bin')
  let server: Server
  let way: Way = 'whole'
  let asked: string[] = []

  const address = () => `https://127.0.0.1:${(server.address() as AddressInfo).port}/latest`

  beforeAll(async () => {
    server = createServer({ cert: certificate, key: privateKey }, (request, response) => {
      const name = /^\/latest\/([\w.-]+)$/.exec(request.url ?? '')?.[1] ?? ''
      asked.push(name)
      const path = join(release, name)
      if (name === '' || !existsSync(path)) return response.writeHead(404).end()
      const content = readFileSync(path)
      response.writeHead(200, { 'content-length': content.length })
      if (way === 'whole' || name === 'SHA256SUMS') return response.end(content)
      const half = content.subarray(0, 1_000_000)
      return way === 'cut' ? response.write(half, () => response.destroy()) : response.write(half)
    })
    await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  /** Tools that take our certificate, which nobody else would. */
  const trusting: Record<string, string> = {
    curl: `exec ${Bun.which('curl')} --insecure "$@"`,
    wget: `exec ${Bun.which('wget')} --no-check-certificate "$@"`,
  }

  /** A folder with these tools alone, and scripts in place of some. */
  function toolbox(name: string, tools: readonly string[], given: Record<string, string> = {}): string {
    const fetching = Object.entries(trusting).filter(([tool]) => tools.includes(tool))
    const stand = { ...Object.fromEntries(fetching), ...given }
    const box = join(folder, name)
    rmSync(box, { recursive: true, force: true })
    mkdirSync(box)
    for (const tool of [...plainTools, ...tools]) {
      const found = Bun.which(tool)
      if (found && !(tool in stand)) symlinkSync(found, join(box, tool))
    }
    for (const [tool, code] of Object.entries(stand)) {
      writeFileSync(join(box, tool), `#!/bin/sh\n${code}\n`, { mode: 0o755 })
    }
    return box
  }

  interface Run {
    shell?: string[]
    env?: Record<string, string>
    script?: string
    stdin?: string
  }

  function install(
    args: readonly string[],
    { shell = ['/bin/sh'], env = {}, script: path = script, stdin }: Run = {},
  ) {
    asked = []
    const command = stdin === undefined ? [...shell, path, ...args] : [...shell, '-s', '--', ...args]
    const all = { PATH: process.env.PATH!, HOME: join(folder, 'home'), NO_PROXY: '127.0.0.1', ...env }
    return ended(command, { cwd: folder, env: all, stdin, withinMs: 60_000 })
  }

  /** Nothing came but the message, which names these; what was there is as it was. */
  function expectUntouched(result: Ended, ...named: (string | RegExp)[]) {
    for (const one of named) expect(result.stderr).toMatch(one)
    expect([result.status, result.stderr.match(/^error: /gm)?.length]).toEqual([1, 1])
    expect(readdirSync(target)).toEqual(['svc'])
    expect(readFileSync(join(target, 'svc'), 'utf8')).toBe('the one before')
  }

  function putOneBefore() {
    rmSync(target, { recursive: true, force: true })
    mkdirSync(target)
    writeFileSync(join(target, 'svc'), 'the one before')
  }

  const shells: Record<string, string[] | null> = {
    dash: Bun.which('dash') ? ['dash'] : null,
    'busybox ash': busybox ? [busybox, 'ash'] : null,
  }
  for (const [name, shell] of Object.entries(shells)) {
    test.skipIf(!shell)(
      `from the folder it lies in, under ${name} (skipped where there is none)`,
      async () => {
        const to = join(folder, 'new', 'place')
        const result = await install(['--to', to], {
          shell: shell!,
          script: join(release, 'install.sh'),
          env: { SHELL: '/usr/bin/zsh' },
        })
        expect([result.status, result.stderr]).toEqual([0, ''])
        for (const one of [
          ...[pkg.version, `${to}/svc\n`, `  echo 'export PATH="${to}:$PATH"' >> ~/.zshrc\n`],
          ` ${to}/svc openapi --sandbox\n`,
        ])
          expect(result.stdout).toContain(one)
        expect(readdirSync(to)).toEqual(['svc'])
        expect((statSync(join(to, 'svc')).mode & 0o777).toString(8)).toBe('755')
        expect(readFileSync(join(to, 'svc')).equals(readFileSync(join(release, 'svc-linux-x64')))).toBe(true)
        rmSync(join(folder, 'new'), { recursive: true })
      },
    )
  }

  const ways: [name: string, tools: string[], stand?: Record<string, string>][] = [
    ['curl and sha256sum', ['curl', 'sha256sum']],
    ['wget and openssl', ['wget', 'openssl']],
    ['busybox wget and shasum', ['shasum', 'perl'], { wget: `exec ${busybox} wget "$@"` }],
  ]
  for (const [name, tools, stand = {}] of ways) {
    const here = tools.every(tool => Bun.which(tool)) && (busybox || !('wget' in stand))
    test.skipIf(!here)(`over HTTPS with ${name}, read from a pipe (skipped without them)`, async () => {
      const box = toolbox('tools', tools, stand)
      const env = { PATH: `${box}:${target}`, SVC_FROM: address() }
      rmSync(target, { recursive: true, force: true })
      const result = await install(['--to', `${target}/`], { env, stdin: readFileSync(script, 'utf8') })
      expect(result.status).toBe(0)
      // No word of the PATH, on which it is.
      const [told, next, ...more] = result.stdout.split('\n').slice(-3)
      expect(told).toMatch(pkg.version)
      expect(told).toEndWith(` ${target}/svc`)
      expect(next).toEndWith(' svc openapi --sandbox')
      expect(more).toEqual([''])
      expect(result.stdout).not.toMatch(/export|~/)
      expect(asked).toEqual(['SHA256SUMS', 'svc-linux-x64.gz'])
      expect(readdirSync(target)).toEqual(['svc'])
    })
  }

  test('the address that a release was built with is where it comes from; without gzip it is the plain file', async () => {
    // Nobody's folder of programs for all may be written by this test.
    const box = toolbox('tools', ['curl', 'sha256sum'], { id: 'echo 65532' })
    rmSync(join(box, 'gzip'))
    const own = join(folder, 'own.sh')
    writeFileSync(own, readFileSync(script, 'utf8').replace("\naddress=''\n", `\naddress='${address()}'\n`))
    const home = join(folder, 'home')
    const result = await install([`--to=${home}/.local/bin`], {
      script: own,
      env: { PATH: box, SHELL: '/bin/bash' },
    })
    expect(asked).toEqual(['SHA256SUMS', 'svc-linux-x64'])
    expect(result.stdout).toContain(`echo 'export PATH="$HOME/.local/bin:$PATH"' >> ~/.bashrc`)
    expect([result.status, readdirSync(join(home, '.local/bin'))]).toEqual([0, ['svc']])
    rmSync(home, { recursive: true })
  })

  test('an upgrade takes the place of a program that runs, which goes on', async () => {
    rmSync(target, { recursive: true, force: true })
    mkdirSync(target)
    copyFileSync(join(release, 'svc-linux-x64'), join(target, 'svc'))
    const before = statSync(join(target, 'svc')).ino
    const args = [
      'openapi',
      '--sandbox',
      '-p',
      '0',
      '--sandbox-port',
      '0',
      '-d',
      join(folder, 'data'),
      '--no-banner',
    ]
    const running = Bun.spawn([join(target, 'svc'), ...args], {
      env: { HOME: folder },
      stdout: 'pipe',
      stderr: 'ignore',
    })
    try {
      const reader = running.stdout.pipeThrough(new TextDecoderStream()).getReader()
      let said = ''
      const url = await until('it says where it listens', 30_000, async () => {
        said += (await reader.read()).value ?? ''
        return /^listening on (\S+)$/m.exec(said)?.[1]
      })
      expect((await install(['--from', release, '--to', target])).status).toBe(0)
      expect(statSync(join(target, 'svc')).ino).not.toBe(before)
      expect((await fetch(`${url}/healthz`)).status).toBe(200)
    } finally {
      running.kill('SIGTERM')
      await running.exited
    }
  })

  test('a wrong sum, a download cut off, a file that is missing, no room: nothing changes, and it says why', async () => {
    putOneBefore()
    const tampered = join(folder, 'tampered')
    const sumOf = (content: string | Buffer) => createHash('sha256').update(content).digest('hex')
    mkdirSync(tampered)
    copyFileSync(join(release, 'SHA256SUMS'), join(tampered, 'SHA256SUMS'))
    expectUntouched(await install(['--from', tampered, '--to', target]), 'svc-linux-x64.gz', tampered)
    writeFileSync(join(tampered, 'svc-linux-x64'), 'something else')
    expectUntouched(
      await install(['--from', tampered, '--to', target]),
      'svc-linux-x64',
      sumOf(readFileSync(join(release, 'svc-linux-x64'))),
      sumOf('something else'),
    )
    const env = { PATH: toolbox('tools', ['curl', 'sha256sum']) }
    expectUntouched(
      await install(['--from', `${address()}/none`, '--to', target], { env }),
      `${address()}/none/SHA256SUMS`,
    )
    way = 'cut'
    try {
      for (const tool of ['curl', 'wget']) {
        const env = { PATH: toolbox('tools', [tool, 'sha256sum']) }
        expectUntouched(
          await install(['--from', address(), '--to', target], { env }),
          `${address()}/svc-linux-x64.gz`,
        )
      }
    } finally {
      way = 'whole'
    }
    // A limit on the size of files stands for a full disk.
    const narrow = ['/bin/sh', '-c', 'ulimit -f 20000; exec /bin/sh "$@"', 'sh']
    expectUntouched(
      await install(['--from', release, '--to', target], { shell: narrow }),
      'svc-linux-x64',
      target,
    )
  })

  test('broken off in the middle of a download, it leaves nothing, nor the folders it made', async () => {
    way = 'slow'
    asked = []
    const to = join(folder, 'deep', 'er')
    const child = Bun.spawn(
      [Bun.which('setsid') ?? 'setsid', '/bin/sh', script, '--from', address(), '--to', to],
      {
        env: { PATH: toolbox('tools', ['curl', 'sha256sum']), NO_PROXY: '127.0.0.1' },
        stdout: 'ignore',
        stderr: 'pipe',
      },
    )
    try {
      await until('the download is under way', 30_000, () => asked.includes('svc-linux-x64.gz'))
      // As Ctrl-C does: to all of them.
      process.kill(-child.pid, 'SIGINT')
      expect(await child.exited).toBe(130)
    } finally {
      way = 'whole'
      child.kill('SIGKILL')
      server.closeAllConnections()
    }
    expect(existsSync(join(folder, 'deep'))).toBe(false)
  })

  const machines: [stand: Record<string, string>, ...named: (string | RegExp)[]][] = [
    [
      { uname: 'case $1 in -s) echo MINGW64_NT-10.0;; *) echo x86_64;; esac' },
      'svc-windows-x64.exe',
      'svc.exe',
    ],
    [{ uname: 'case $1 in -s) echo FreeBSD;; *) echo amd64;; esac' }, 'FreeBSD'],
    [{ uname: 'case $1 in -s) echo Linux;; *) echo riscv64;; esac' }, 'riscv64'],
    [{ getconf: 'echo 32' }, /\b32\b/, 'x86_64'],
    [{ ldd: 'echo "musl libc (x86_64)" >&2; exit 1' }, 'SHA256SUMS', 'svc-linux-x64-musl'],
    [
      {
        ldd: 'echo "musl libc (aarch64)" >&2; exit 1',
        uname: 'case $1 in -s) echo Linux;; *) echo aarch64;; esac',
      },
      'svc-linux-arm64-musl',
      'apk add libstdc++',
    ],
    [
      { uname: 'case $1 in -s) echo Linux;; *) echo aarch64;; esac' },
      'SHA256SUMS',
      /svc-linux-arm64(?!-musl)/,
    ],
    // A shell that Rosetta translates is told of an Intel machine.
    [{ uname: 'case $1 in -s) echo Darwin;; *) echo x86_64;; esac', sysctl: 'echo 1' }, 'svc-darwin-arm64'],
    [{ uname: 'case $1 in -s) echo Darwin;; *) echo x86_64;; esac', sysctl: 'exit 1' }, 'svc-darwin-x64'],
  ]
  test('each machine gets its own file, or is told that there is none and what to do', async () => {
    for (const [stand, ...named] of machines) {
      putOneBefore()
      const env = { PATH: toolbox('tools', ['sha256sum'], stand) }
      expectUntouched(await install(['--from', release, '--to', target], { env }), ...named)
    }
  })

  test('what it cannot go on without is named', async () => {
    putOneBefore()
    const bare = { PATH: toolbox('tools', []) }
    expectUntouched(await install(['--from', address(), '--to', target], { env: bare }), 'curl', 'wget')
    expectUntouched(
      await install(['--from', release, '--to', target], { env: bare }),
      'sha256sum',
      'shasum',
      'openssl',
    )
    expectUntouched(
      await install(['--to', target], { stdin: readFileSync(script, 'utf8') }),
      '--from https://',
      'npm run build -- --all',
    )
    expectUntouched(
      await install(['--from', '/nowhere', '--to', target]),
      '/nowhere',
      'npm run build -- --all',
    )
    expectUntouched(await install(['--frm', release]), /^error: .*--frm\n/, '[--from ')
    for (const none of [['--to'], ['--to', ''], ['--to='], ['--from=', '--to', target]]) {
      expectUntouched(await install(none), new RegExp(`^error: .*${none[0]!.replace('=', '')}`), '[--from ')
    }
    chmodSync(target, 0o755)
  })

  test('nothing comes without encryption, nor from where it leads without', async () => {
    putOneBefore()
    const env = { PATH: toolbox('tools', ['sha256sum'], { curl: 'echo "curl $*" >&2; exit 1' }) }
    const from = (address: string) => install(['--from', address, '--to', target], { env })
    expectUntouched(
      await from(address()),
      /^curl .*--proto =https --proto-redir =https -o .*SHA256SUMS https:/,
    )
    for (const scheme of ['http', 'HTTP', 'ftp', 'HTTPS'])
      expectUntouched(
        await from(address().replace('https', scheme)),
        address().replace('https', scheme),
        ' https://',
      )
    expect(asked).toEqual([])
  })

  test('a folder may be named as a file URL', async () => {
    rmSync(target, { recursive: true, force: true })
    expect((await install(['--from', `file://${release}/`, '--to', target])).status).toBe(0)
    putOneBefore()
    for (const [url, named] of [
      ['file:///no%20where', 'file:///no%20where'],
      ['file:///nowhere', ' /nowhere'],
      ['file://host/x', 'https://'],
    ] as const)
      expectUntouched(await install(['--from', url, '--to', target]), named)
  })

  const checker = Bun.which('shellcheck')
  test.skipIf(!checker)('shellcheck has nothing to say (skipped without it)', async () => {
    const result = await ended([checker!, script], { cwd: folder, env: {} })
    expect(result).toEqual({ status: 0, stdout: '', stderr: '' })
  })
}
