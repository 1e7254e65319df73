/** The package: what is in it, and that in somebody's project it does what the README says. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'
import ours from '../package.json' with { type: 'json' }
import { smoke } from '../scripts/smoke.ts'
import { Svc } from '../src/index.ts'
import { installed } from './support/agents.ts'
import { ended } from './support/ended.ts'
import { end, family, innermost } from './support/family.ts'
import { overhear } from './support/overheard.ts'
import { filesOf, pack, projectWith } from './support/package.ts'
import { withSandbox } from './support/sandbox.ts'
import { until } from './support/until.ts'

const root = join(import.meta.dirname, '..')
const page = await readFile(join(root, 'src/library/README.md'), 'utf8')
const examples = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(match => match[1]!)
const [echo, login, handlers, look, slow] = examples
/** Those that open a data directory. */
const opening = examples.filter(text => !text.includes('svc/client'))

/** Node as npm has it, in a folder of its own, or why it cannot be had. */
const node24 = await installed('node@24', 'node')
/** Those that cannot run it. */
const older = Object.fromEntries(
  await Promise.all(
    ['18', '20', '22'].map(async version => [version, await installed(`node@${version}`, 'node')] as const),
  ),
)
const nodeOf = 'node_modules/.bin/node'
const node = Bun.which('node')

let folder: string
let tarball: string
/** Somebody's project with the package in it; also the home of the programs. */
let project: string

describe.skipIf(!Bun.which('npm'))('the package (skipped where there is no npm)', () => {
  beforeAll(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'svc-package-')))
    project = join(folder, 'project')
    tarball = await pack(join(folder, 'sources'))
    await projectWith(tarball, project)
    for (const [index, text] of examples.entries())
      await writeFile(join(project, `example-${index}.ts`), text)
  }, 300_000)
  afterAll(() => rm(folder, { recursive: true, force: true }), 60_000)

  test('it holds what runs, its sources, and nothing else', async () => {
    expect(tarball).toEndWith(`/svc-${ours.version}.tgz`)
    const files = await filesOf(tarball)
    const outside = files.filter(path => !/^(lib|src|dist\/panel)\//.test(path))
    expect(outside).toEqual(['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json'])
    const sources = files.filter(path => /^src\/.*(?<!\.d)\.ts$/.test(path)).map(path => path.slice(4, -3))
    expect(sources).toContain('sandbox/world')
    const made = sources.flatMap(name => ['js', 'd.ts', 'd.ts.map'].map(kind => `lib/${name}.${kind}`))
    const besides = files.filter(path => path.startsWith('lib/') && !made.includes(path))
    expect(made.filter(path => !files.includes(path))).toEqual([])
    expect(besides).toEqual([
      'lib/cli/licenses.txt.br',
      'lib/client.d.ts',
      'lib/on-node.js',
      'lib/operations/export-page.css',
      ...['phone.css', 'phone.html', 'phone.js', 'texts.json'].map(name => `lib/sandbox/page/${name}`),
      ...['page.js', 'scalar.js.br', 'zh.json'].map(name => `lib/server/docs/${name}`),
      'lib/server/invite/page.js',
      'lib/server/svc.py',
      'lib/svc.js',
    ])
    for (const name of ['index.html', 'locales/en.json', 'locales/zh.json', 'assets/'])
      expect(files.some(path => path.startsWith(`dist/panel/${name}`))).toBe(true)
  })

  test('no file of it holds the path of the folder in which it was made', async () => {
    const installed = join(project, 'node_modules/svc')
    const files = (await filesOf(tarball)).filter(path => !path.endsWith('/'))
    expect(files).toContain('lib/index.js')
    const made = [join(folder, 'sources'), root]
    const holders = files.filter(path => {
      const bytes = readFileSync(join(installed, path))
      return made.some(one => bytes.includes(one))
    })
    expect(holders).toEqual([])
  })

  test('from its types, maps lead to the sources', async () => {
    const map = await readFile(join(project, 'node_modules/svc/lib/library/svc.d.ts.map'), 'utf8')
    const { sources } = JSON.parse(map)
    const source = join(project, 'node_modules/svc/lib/library', sources[0])
    expect(await readFile(source, 'utf8')).toContain('export class Svc')
  })

  test('what is installed with it runs nothing by itself, and is not for making svc', async () => {
    const lock = (await import(join(project, 'bun.lock'), { with: { type: 'jsonc' } })).default
    const packages: Record<string, [string, string, { hasInstallScript?: boolean }]> = lock.packages
    const names = Object.keys(packages)
    expect(names).toEqual(expect.arrayContaining(Object.keys(ours.dependencies)))
    expect(names.filter(name => packages[name]![2].hasInstallScript)).toEqual([])
    // The project has Bun's types for itself; TypeScript comes with @elysiajs/openapi, which asks for it.
    const tools = Object.keys(ours.devDependencies).filter(name => names.includes(name))
    expect(tools.sort()).toEqual(['@types/bun', 'typescript'])
  })

  describe.each([
    ['as `bun init` makes it', { module: 'Preserve', moduleResolution: 'bundler', types: ['bun'] }],
    ['as Node has it, with no types but the browser’s', { module: 'NodeNext', lib: ['ESNext', 'DOM'] }],
  ])('a project %s', (_what, settings) => {
    test('compiles the examples with everything checked, and no misuse', async () => {
      expect(examples).toHaveLength(6)
      await writeFile(join(project, 'misuse.ts'), misuse)
      const strict = {
        ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
        ...{ noImplicitOverride: true, noPropertyAccessFromIndexSignature: true, skipLibCheck: false },
      }
      const usual = { target: 'ESNext', lib: ['ESNext'], moduleDetection: 'force', noEmit: true, types: [] }
      await writeFile(
        join(project, 'tsconfig.json'),
        JSON.stringify({ compilerOptions: { ...usual, ...strict, ...settings }, include: ['*.ts'] }),
      )
      const tsc = await inProject([join(root, 'node_modules/.bin/tsc'), '-p', project])
      expect(tsc).toMatchObject({ stdout: '', status: 0 })
    })
  })

  test('its program holds a whole conversation', async () => {
    const steps: string[] = []
    await smoke({
      command: [process.execPath, join(project, 'node_modules/.bin/svc')],
      ...{ data: join(folder, 'smoke'), cwd: project, env: { HOME: project }, version: ours.version },
      print: line => steps.push(line),
    })
    expect(steps.length).toBeGreaterThan(10)
    const doctor = [join(project, 'node_modules/.bin/svc'), 'doctor', '--sandbox', '--json', '-p', '0']
    const { findings } = JSON.parse((await inProject([process.execPath, ...doctor])).stdout)
    expect(findings[0].what).toStartWith(`svc ${ours.version}, the npm package on Bun `)
  }, 300_000)

  test('the echo bot answers', async () => {
    await using world = await openWorld()
    const bot = await runPolling(world, echo)
    try {
      await world.phone('say', '{"text": "你好"}')
      const chat = () => world.phone('chat')
      await until('the echo', 30_000, async () => (await chat()).includes('bot: You said: 你好'))
    } finally {
      await bot.end('SIGKILL')
    }
  })

  test('the bot with handlers saves pictures, answers texts and ends with Ctrl-C', async () => {
    await using world = await openWorld()
    const bot = await runPolling(world, handlers)
    try {
      const picture = join(root, 'admin/screenshots/qr-code.webp')
      await world.phone('media?kind=image&name=dot.webp', await readFile(picture))
      await world.phone('say', '{"text": "louder"}')
      const chat = () => world.phone('chat')
      await until('the answer', 30_000, async () => (await chat()).includes('bot: LOUDER'))
      await until('the picture', 30_000, () => bot.output().includes(`: ${statSync(picture).size} bytes\n`))
      expect(await bot.end('SIGINT')).toBe(0)
    } finally {
      await bot.end('SIGKILL')
    }
  })

  test('the bot with several open messages answers each user in order, nobody behind another', async () => {
    await using world = await openWorld()
    const bot = await runPolling(world, slow)
    try {
      for (const text of ['one', 'two']) await world.phone('say', JSON.stringify({ text }))
      const chat = () => world.phone('chat')
      await until('the second answer', 30_000, async () => (await chat()).includes('bot: Done: two'))
      expect((await chat()).indexOf('bot: Done: one')).toBeGreaterThan(0)
      // The world has a store of its own, in memory.
      await using reader = await Svc.open({ ...inWorld(), store: true })
      const audit = await reader.audit({ operation: 'send', limit: 2 })
      expect(audit.map(({ principal }) => principal)).toEqual(['agent:slow', 'agent:slow'])
    } finally {
      await bot.end('SIGKILL')
    }
  })

  test('the login shows its code, and ends once that was scanned', async () => {
    await using world = await openWorld()
    await world.svc.logout()
    const program = run(login)
    await until('the code', 30_000, () => program.output().includes('█'))
    await world.phone('scan', '{"confirm": true}')
    expect(await program.exited).toBe(0)
    expect(await world.svc.sessions()).toMatchObject([{ name: 'default', connected: true }])
  })

  test('the look shows what is there and ends', async () => {
    await using world = await openWorld()
    await world.phone('say', '{"text": "anybody?"}')
    const program = run(look)
    expect(await program.exited).toBe(0)
    expect(program.output()).toContain('anybody?')
  })

  test('the look under Deno does the same', async () => {
    await using world = await openWorld()
    await world.phone('say', '{"text": "and here?"}')
    const program = run(look, [join(root, 'node_modules/.bin/deno'), 'run', '--allow-all', '--quiet'])
    expect(await program.exited).toBe(0)
    expect(program.output()).toContain('and here?')
  })

  describe('under Node', () => {
    /** Where there is Node, and a Bun if it is given. */
    async function box(more: Record<string, string> = {}): Promise<Record<string, string>> {
      const path = await mkdtemp(join(folder, 'box-'))
      for (const [name, program] of Object.entries({ node: node!, sh: Bun.which('sh')!, ...more }))
        await symlink(program, join(path, name))
      return { PATH: path, HOME: project }
    }

    for (const [version, had] of Object.entries(older))
      test.skipIf('why' in had)(
        `Node ${version} says which one is needed, whichever example it is given (skipped where it cannot be had)`,
        async () => {
          if ('why' in had) return
          for (const [index, text] of opening.entries()) {
            const program = join(project, `on-node-${index}.mjs`)
            await writeFile(program, new Bun.Transpiler({ loader: 'ts' }).transformSync(text))
            const { status, stderr } = await inProject([join(had.folder, nodeOf), program])
            expect(status).toBe(1)
            expect(stderr.match(/^\w*Error: .*$/gm)).toEqual([expect.stringMatching(/\b24\b/)])
            expect(stderr).toContain('on-node.js')
          }
        },
      )

    test.skipIf(!node)(
      'npx runs the program on Bun, or says what to install (skipped without node)',
      async () => {
        const npx = [node!, join(dirname(node!), 'npx'), '--no-install', 'svc', '--version']
        const none = await ended(npx, { cwd: project, env: await box(), withinMs: 60_000 })
        expect([none.status, none.stdout]).toEqual([1, ''])
        expect(none.stderr).toMatch(/^error: .*npm install bun\n/)
        // As npm installs the package "bun", and beside the name that npm gave svc.
        const bin = join(project, 'node_modules/.bin')
        await symlink(process.execPath, join(bin, 'bun'))
        const beside = [node!, join(bin, 'svc'), '--version']
        const found = await ended(beside, { cwd: project, env: await box(), withinMs: 60_000 })
        await rm(join(bin, 'bun'))
        expect(found.stdout).toBe(`${ours.version}\n`)
        const env = await box({ bun: process.execPath })
        expect((await ended(npx, { cwd: project, env, withinMs: 60_000 })).stdout).toBe(`${ours.version}\n`)
      },
    )

    describe.skipIf(!node)('a signal (skipped without node)', () => {
      const openapi = ['openapi', '--no-banner', '--sandbox', '-p', '0', '--sandbox-port', '0']
      const bin = () => join(project, 'node_modules/svc/lib/svc.js')

      /** Signals what the program consists of, once the service runs. @returns how the outermost ended, once all have */
      async function signalled(command: string[], signal: NodeJS.Signals, to: (pid: number) => number) {
        const dir = await mkdtemp(join(folder, 'signalled-'))
        const env = await box({ bun: process.execPath })
        const child = Bun.spawn([...command, ...openapi, '-d', dir], {
          ...{ cwd: project, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
        })
        const said = overhear(child)
        await until('the service runs', 30_000, () => said.stdout.includes('phone on'))
        const all = family(child.pid)
        process.kill(to(child.pid), signal)
        let isOver = false
        void said.exited.then(() => {
          isOver = true
        })
        try {
          await until('all have ended', 30_000, () => isOver)
          return child.signalCode ?? child.exitCode
        } finally {
          for (const pid of all) end(pid, 'SIGKILL')
        }
      }

      test('to npx ends the service', async () => {
        const npx = [node!, join(dirname(node!), 'npx'), '--no-install', 'svc']
        await signalled(npx, 'SIGTERM', pid => pid)
      })

      test('to the program under Node ends the service, whose end is its own', async () => {
        expect(await signalled([node!, bin()], 'SIGTERM', pid => pid)).toBe(0)
        expect(await signalled([node!, bin()], 'SIGKILL', pid => innermost(pid)[0]!)).toBe('SIGKILL')
      })
    })

    test.skipIf('why' in node24)(`Node 24 reads and answers (skipped where it cannot be had)`, async () => {
      if ('why' in node24) return
      await using sandbox = await withSandbox()
      await writeFile(join(project, 'answers.mjs'), answers)
      // As svc leaves it under Bun.
      await mkdir(join(folder, 'node-of-bun'))
      await writeFile(join(folder, 'node-of-bun/.data.lock'), 'flock\n')
      const bin = join(node24.folder, nodeOf)
      const bot = Bun.spawn([bin, 'answers.mjs', sandbox.url, join(folder, 'node')], {
        ...{ cwd: project, env: environment(), stdout: 'pipe', stderr: 'inherit' },
      })
      const told = ['sandbox: invalid_arguments', 'of Bun: store_unavailable flock', 'accepted', '1']
      try {
        await sandbox.scanAndConfirm()
        const polled = () => (sandbox.world.core.stats.requests.getupdates ?? 0) > 0
        await until('it polls', 30_000, polled)
        await sandbox.say('你好')
        expect(await new Response(bot.stdout).text()).toBe(`${told.join('\n')}\n`)
        expect(await bot.exited).toBe(0)
      } finally {
        bot.kill('SIGKILL')
      }
    })
  })
})

/** Logs in, answers one message with text and a file, and searches. */
const answers = `import { Svc } from 'svc'
const [, , sandboxUrl, basePath] = process.argv
await Svc.open({ sandbox: true, basePath }).catch(error => console.log('sandbox:', error.code))
await Svc.open({ basePath: basePath + '-of-bun' }).catch(({ code, details }) =>
  console.log('of Bun:', code, details?.lock_kind),
)
await using svc = await Svc.open({ sandboxUrl, basePath, store: true })
const messages = svc.messages({ consumer: 'default' })
while ((await svc.login({ timeout: 30 })).status !== 'confirmed');
for await (const { from_user: to, text } of messages) {
  const media = [{ kind: 'file', data: btoa('abc'), file_name: 'a.txt' }]
  console.log((await svc.send({ to, text: 'You said: ' + text, media })).status)
  break
}
console.log((await svc.history({ text_contains: 'You said' })).total)
`

const misuse = `import { Svc, type Message, type SendResult } from 'svc'
const svc = await Svc.open()
svc.onMessage(async (message: Message, { signal }) => {
  const result: SendResult = await svc.send({ to: message.from_user, text: message.text }, { signal })
  result.parts satisfies readonly object[]
})
await svc.history({ since: '2026-01-01', before: 3, msg_type: 'IMAGE' })
await svc.download({ message_id: 12 })
// @ts-expect-error to is missing
await svc.send({ text: 'x' })
// @ts-expect-error a number
await svc.recv({ timeout: '5' })
// @ts-expect-error no such argument
await svc.logout({ name: 'x' })
// @ts-expect-error no such option
await Svc.open({ base_path: '/x' })
`

const environment = () => ({ PATH: process.env.PATH ?? '', HOME: project })

const inProject = (command: string[]) =>
  ended(command, { cwd: project, env: environment(), withinMs: 60_000 })

interface Running {
  output(): string
  end(signal: NodeJS.Signals): Promise<number>
  exited: Promise<number>
}

function run(text: string | undefined, runtime: string[] = [process.execPath]): Running {
  const child = Bun.spawn([...runtime, join(project, `example-${examples.indexOf(text!)}.ts`)], {
    cwd: project,
    env: environment(),
    stdout: 'pipe',
    stderr: 'inherit',
  })
  let output = ''
  const reading = (async () => {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) output += chunk
  })()
  const exited = Promise.all([child.exited, reading]).then(([code]) => code)
  return {
    output: () => output,
    exited,
    end(signal) {
      child.kill(signal)
      return exited
    },
  }
}

const inWorld = () => ({ basePath: join(project, '.svc-sandbox'), sandbox: true, logLevel: 'ERROR' }) as const

/** The world in which the programs run: a session that is logged in, and its user's phone. */
async function openWorld() {
  const svc = await Svc.open(inWorld())
  const phone = async (path: string, body?: BodyInit) => {
    const response = await fetch(
      `${svc.phoneUrl}/${path}`,
      body === undefined ? {} : { method: 'POST', body },
    )
    return response.text()
  }
  if ((await svc.sessions()).length === 0) {
    await svc.login()
    await phone('scan', '{"confirm": true}')
    expect(await svc.login({ timeout: 60 })).toMatchObject({ status: 'confirmed' })
  }
  return { svc, phone, [Symbol.asyncDispose]: () => svc.close() }
}

/** Runs a program until it polls: only then it is there to hear. */
async function runPolling(world: { phone(path: string): Promise<string> }, text: string | undefined) {
  const polls = async () => Number(JSON.parse(await world.phone('stats')).requests.getupdates ?? 0)
  const before = await polls()
  const program = run(text)
  await until('it polls', 30_000, async () => (await polls()) > before)
  return program
}
