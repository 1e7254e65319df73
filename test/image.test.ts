/** The container image: its files agree with the code, and what it holds works where there is nothing else. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'
import pkg from '../package.json' with { type: 'json' }
import { findCommit } from '../scripts/build/commit.ts'
import { smoke } from '../scripts/smoke.ts'
import { isCommand } from '../src/cli/commands.ts'
import { optionTable } from '../src/config.ts'
import { type Container, canContain, runIn, startIn } from './support/container.ts'
import { type Ended, ended } from './support/ended.ts'
import { end, family, innermost } from './support/family.ts'
import { folderOfTest } from './support/folder.ts'
import { config, hardened, lineOf, linesOf, pairsIn, sentFiles, stages } from './support/image.ts'
import { freePort } from './support/port.ts'
import { undisturbed } from './support/undisturbed.ts'
import { until } from './support/until.ts'

const root = join(import.meta.dir, '..')
const text = (name: string) => readFile(join(root, name), 'utf8')

const usual = (name: string) => optionTable.find(option => option.name === name)?.default
const isSetting = (name: string) => optionTable.some(({ env }) => env === name)
const isOption = (flag: string) =>
  optionTable.some(option => option.flag === flag && option.commands.includes('openapi'))

describe('the Dockerfile', () => {
  test('sets what svc reads, starts what svc has, and opens the ports that it then listens on', () => {
    const names = Object.keys(config.env)
    expect(names.filter(name => name.startsWith('SVC_')).every(isSetting)).toBe(true)
    expect(config.env.SVC_BASE_PATH).toBe(lineOf('VOLUME'))
    const [program, command, ...flags] = config.start
    expect([program, command]).toEqual(['/svc', 'openapi'])
    expect(flags.filter(flag => flag.startsWith('-')).every(isOption)).toBe(true)
    expect(config.ports).toEqual([String(usual('port')), flags[flags.indexOf('--admin-port') + 1]!])
    expect(config.health[0]).toBe(program!)
    expect(isCommand(config.health[1])).toBe(true)
  })

  test('names its user by number, as whoever checks for root wants it, and the user owns the data', async () => {
    expect(lineOf('USER')).toBe(`${config.user}:${config.user}`)
    expect(config.user).toBeGreaterThan(0)
    expect(await text('scripts/image-root')).toContain(`svc:x:${config.user}:${config.user}:`)
    expect(linesOf('COPY').filter(copy => copy.includes('/own/'))).toEqual([
      expect.stringContaining(`--chown=${config.user}:${config.user} `),
    ])
  })

  test('runs nothing of the platform that it is built for, and takes every base by a fixed name', () => {
    for (const stage of stages) {
      const [from = ''] = linesOf('FROM', stage)
      const isBuilt = from.startsWith('--platform=$BUILDPLATFORM ') || /^(dependencies|build)\b/.test(from)
      expect([from, isBuilt || linesOf('RUN', stage).length === 0]).toEqual([from, true])
      const base = from.replace(/^--platform=\S+ /, '').replace(/ AS .*/, '')
      expect(base).toMatch(/^(scratch|dependencies|build|[a-z]+:[a-z0-9][a-z0-9.-]*(@sha256:[0-9a-f]{64})?)$/)
      expect(base).not.toContain('latest')
    }
  })

  test('says what package.json says, and repeats no version', async () => {
    const labels = pairsIn(lineOf('LABEL'))
    expect(labels).toMatchObject({
      'org.opencontainers.image.title': pkg.name,
      'org.opencontainers.image.description': pkg.description,
      'org.opencontainers.image.licenses': pkg.license,
      'org.opencontainers.image.version': '$VERSION',
    })
    for (const name of ['Dockerfile', 'compose.yaml', 'scripts/image', 'scripts/image-root']) {
      const content = await text(name)
      for (const version of [pkg.version, pkg.devDependencies.bun]) expect(content).not.toContain(version)
    }
  })

  test('is built by one script with each engine, in a format that has a health check', async () => {
    const folder = folderOfTest()
    // Says how it was called.
    const engine = async (name: string, ...args: string[]) => {
      writeFileSync(join(folder, name), '#!/bin/sh\necho "$(basename "$0") $*"\n', { mode: 0o755 })
      const env = { PATH: `${folder}:${process.env.PATH ?? ''}`, ENGINE: name }
      return (await ended([join(root, 'scripts/image'), ...args], { cwd: folder, env })).stdout
    }
    const { id = '', isModified = false } = findCommit() ?? {}
    const commit = `${id}${isModified ? '.modified' : ''}`
    const version = `--build-arg VERSION=${pkg.version} --build-arg COMMIT=${commit} .\n`
    const tags = `--tag svc:${pkg.version} --tag svc:latest`
    expect(await engine('docker')).toBe(`docker buildx build ${tags} ${version}`)
    expect(await engine('podman')).toBe(`podman build --format docker ${tags} ${version}`)
    // One would be pushed where nobody meant it.
    expect(await engine('docker', '-t', 'a/b', '--push')).toBe(`docker buildx build -t a/b --push ${version}`)
  })

  test('installs before it copies the sources, with each package of the workspace', () => {
    const first = stages[0]!
    const copied = linesOf('COPY', first).flatMap(line => line.split(' ').slice(0, -1))
    const workspaces = pkg.workspaces.map(folder => `${folder}/package.json`)
    expect(copied.sort()).toEqual(['bun.lock', 'bunfig.toml', 'package.json', ...workspaces].sort())
    expect(first.at(-1)!.word).toBe('RUN')
  })
})

describe('compose.yaml', () => {
  interface Service {
    environment: Record<string, unknown>
    ports: string[]
    volumes: string[]
    [name: string]: unknown
  }
  let compose: { services: Record<string, Service>; volumes: object }
  beforeAll(async () => {
    compose = Bun.YAML.parse(await text('compose.yaml')) as typeof compose
  })

  test('opens to this machine alone, what the image serves, and the phone where there is one', () => {
    const { svc, try: trial } = compose.services
    const open = (ports: string[]) => ports.map(port => `127.0.0.1:${port}:${port}`)
    expect(svc!.ports).toEqual(open(config.ports))
    expect(trial!.ports.sort()).toEqual(open([...config.ports, String(usual('sandboxPort'))]).sort())
    expect([svc!.profiles, trial!.profiles]).toEqual([undefined, ['try']])
  })

  test('gives svc settings that it has and a volume of its own, and takes every right from it', () => {
    const volumes = new Set<string>()
    for (const service of Object.values(compose.services)) {
      const settings = Object.keys(service.environment).filter(name => name !== 'TZ')
      expect(settings.every(isSetting)).toBe(true)
      expect(service).toMatchObject({ build: '.', ...hardened })
      const [, volume = ''] = /^([a-z]+):\/data$/.exec(service.volumes.join()) ?? []
      volumes.add(volume)
    }
    expect([...volumes].sort()).toEqual(Object.keys(compose.volumes).sort())
  })

  test('is removed as the page says with every service: one of a profile stays where the profile is not named', async () => {
    const [line = ''] = /^.*docker compose .*\bdown\b.*$/m.exec(await text('scripts/README.md')) ?? []
    const profiles = Object.values(compose.services).flatMap(({ profiles = [] }) => profiles as string[])
    expect([...line.matchAll(/--profile (\S+)/g)].map(([, name]) => name)).toEqual(profiles)
  })

  const client = [['docker', 'compose'], ['docker-compose']].find(
    command => Bun.which(command[0]!) && Bun.spawnSync([...command, 'version']).success,
  )
  test.skipIf(!client)(
    `is understood by compose${client ? '' : ' (skipped: it is not installed)'}`,
    async () => {
      // It finds its own parts by the user's environment.
      const env = { ...process.env } as Record<string, string>
      const checked = await ended([...client!, '--profile', 'try', 'config', '--quiet'], { cwd: root, env })
      expect(checked.status, checked.stderr).toBe(0)
    },
  )
})

const libraries = { x64: '/lib/x86_64-linux-gnu', arm64: '/lib/aarch64-linux-gnu' }[process.arch as string]
const cpu = process.arch === 'x64' ? 'amd64' : process.arch
const debian = libraries !== undefined && (await Bun.file('/usr/share/doc/libc6/copyright').exists())
const can = canContain && debian
const named = (name: string) =>
  can ? name : `${name} (skipped: needs root that may mount, unshare and setpriv, on a Debian)`

describe('the root directory of the image, as process 1 of an ordinary user who can write to /data alone', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-image-'))
  const context = join(folder, 'context')
  const made = join(folder, 'image')
  const container: Container = { root: join(made, 'root'), data: '', env: config.env, user: config.user }
  const env = { PATH: process.env.PATH ?? '' }
  const run = (command: string[]): Promise<Ended> => ended(command, { cwd: folder, env, withinMs: 60_000 })
  /** A container like it, on an empty volume. */
  const withData = (owner: number, more: Record<string, string> = {}): Container => {
    const data = mkdtempSync(join(folder, 'data-'))
    chownSync(data, owner, owner)
    return { ...container, data, env: { ...container.env, ...more } }
  }

  beforeAll(async () => {
    if (!can) return
    chmodSync(folder, 0o755)
    for (const path of sentFiles()) {
      mkdirSync(dirname(join(context, path)), { recursive: true })
      cpSync(join(root, path), join(context, path))
    }
    expect(readdirSync(context)).not.toContain('README.md')
    // What the first stage installs.
    symlinkSync(join(root, 'node_modules'), join(context, 'node_modules'))
    const built = await run([
      process.execPath,
      join(context, 'scripts/build.ts'),
      `--outfile=${container.root}/svc`,
    ])
    expect(built).toMatchObject({ status: 0, stderr: '' })
    expect(await run([join(context, 'scripts/image-root'), cpu, '/', made])).toEqual({
      status: 0,
      stdout: '',
      stderr: '',
    })
    for (const name of ['proc', 'data']) mkdirSync(join(container.root, name))
  }, 300_000)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test.skipIf(!can)(named('starts as it is, is healthy, tells its token, and ends on SIGTERM'), async () => {
    const port = freePort('0.0.0.0')
    // A machine that runs tests may have something on the usual ports.
    const here = withData(config.user, { SVC_PORT: String(port), SVC_SANDBOX: '1', SVC_SANDBOX_PORT: '0' })
    const start = config.start.map((word, index, words) => (words[index - 1] === '--admin-port' ? '0' : word))
    const child = Bun.spawn(startIn(here, start), { cwd: folder, env, stdout: 'pipe', stderr: 'pipe' })
    try {
      let said = ''
      const reading = [child.stdout, child.stderr].map(async stream => {
        for await (const part of stream.pipeThrough(new TextDecoderStream())) said += part
      })
      const isThere = () => said.includes('phone on') || child.exitCode !== null
      await until('it listens', 30_000, isThere, () => said)
      expect(said).toContain(`listening on http://0.0.0.0:${port}\n`)
      const [pid = 0] = innermost(child.pid)
      const beside = (...program: string[]) => run(runIn(here, pid, program))

      const status = await readFile(`/proc/${pid}/status`, 'utf8')
      expect(status).toMatch(/^NSpid:.*\t1$/m)
      expect(status).toMatch(new RegExp(`^Uid:\\t${config.user}\\t${config.user}\\t`, 'm'))
      expect(status).toMatch(/^CapEff:\t0+$/m)

      expect(await undisturbed(() => beside(...config.health))).toMatchObject({
        status: 0,
        stdout: expect.stringContaining('healthy: '),
      })
      const token = (await beside('svc', 'token')).stdout.trim()
      expect(said).toContain('svc token')
      expect(said).not.toContain(token)
      const asked = async (headers: Record<string, string>) =>
        (await fetch(`http://127.0.0.1:${port}/tools`, { headers })).status
      expect([await asked({}), await asked({ authorization: `Bearer ${token}` })]).toEqual([401, 200])

      end(pid, 'SIGTERM')
      expect(await child.exited).toBe(0)
      await Promise.all(reading)
    } finally {
      for (const pid of family(child.pid)) end(pid, 'SIGKILL')
      await child.exited
    }
    const after = await run(startIn(here, config.health))
    expect(after).toMatchObject({ status: 1, stdout: expect.stringContaining('nothing listens there') })
  })

  test.skipIf(!can)(named('says what to do about a volume that is not its own'), async () => {
    expect(await run(startIn(withData(0), config.start))).toEqual({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(
        new RegExp(`^error: the data directory /data cannot be used: [^\\n]* the user ${config.user}\\.\\n$`),
      ),
    })
  })

  test.skipIf(!can)(named('holds a whole conversation'), async () => {
    // The conversation carries no token.
    const here = withData(config.user, { SVC_HOST: '127.0.0.1' })
    await smoke({
      ...{ command: startIn(here, config.start.slice(0, 1)), data: here.data, dataInside: '/data' },
      version: pkg.version,
    })
  })
})
