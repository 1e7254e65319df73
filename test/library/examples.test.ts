/** The programs of the README: they compile for whoever has svc as a package, and do what they say. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Svc } from '../../src/index.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const readme = await readFile(join(root, 'README.md'), 'utf8')
const examples = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(match => match[1]!)
const [echo, handlers, look] = examples

/** Somebody's project, with svc as a package in it; also the home of the programs. */
let project: string

beforeAll(async () => {
  project = await realpath(await mkdtemp(join(tmpdir(), 'svc-project-')))
  await mkdir(join(project, 'node_modules', '@types'), { recursive: true })
  await symlink(root, join(project, 'node_modules', 'svc'))
  for (const types of ['@types/bun', 'bun-types'])
    await symlink(join(root, 'node_modules', types), join(project, 'node_modules', types))
  for (const [index, text] of examples.entries()) await writeFile(join(project, `example-${index}.ts`), text)
})
afterAll(() => rm(project, { recursive: true, force: true }))

interface Running {
  output(): string
  end(signal: NodeJS.Signals): Promise<number>
  exited: Promise<number>
}

function run(text: string | undefined): Running {
  const child = Bun.spawn([process.execPath, join(project, `example-${examples.indexOf(text!)}.ts`)], {
    env: { PATH: process.env.PATH ?? '', HOME: project },
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

async function until<T>(what: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (const deadline = Date.now() + 10_000; ; ) {
    const found = await look()
    if (found) return found
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`)
    await Bun.sleep(20)
  }
}

/** The world in which the programs run: a session that is logged in, and its user's phone. */
async function openWorld() {
  const svc = await Svc.open({ basePath: join(project, '.svc-sandbox'), sandbox: true, logLevel: 'ERROR' })
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
    expect(await svc.login({ timeout: 10 })).toMatchObject({ status: 'confirmed' })
  }
  return { svc, phone, [Symbol.asyncDispose]: () => svc.close() }
}

/** Runs a program until it polls: only then it is there to hear. */
async function runPolling(world: { phone(path: string): Promise<string> }, text: string | undefined) {
  const polls = async () => Number(JSON.parse(await world.phone('stats')).requests.getupdates ?? 0)
  const before = await polls()
  const program = run(text)
  await until('it polls', async () => (await polls()) > before || undefined)
  return program
}

test('every one of them compiles in a project with the settings of `bun init`, and misuse does not', async () => {
  expect(examples).toHaveLength(3)
  await writeFile(
    join(project, 'misuse.ts'),
    `import { Svc, type Message, type SendResult } from 'svc'
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
    `,
  )
  await writeFile(
    join(project, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        ...{ lib: ['ESNext'], target: 'ESNext', module: 'Preserve', moduleDetection: 'force', allowJs: true },
        ...{ moduleResolution: 'bundler', allowImportingTsExtensions: true, verbatimModuleSyntax: true },
        ...{ noEmit: true, strict: true, skipLibCheck: true, noFallthroughCasesInSwitch: true },
        ...{ noUncheckedIndexedAccess: true, noImplicitOverride: true, types: ['bun'] },
      },
      include: ['*.ts'],
    }),
  )
  const tsc = Bun.spawn([join(root, 'node_modules/.bin/tsc'), '-p', project], { stdout: 'pipe' })
  expect(await new Response(tsc.stdout).text()).toBe('')
  expect(await tsc.exited).toBe(0)
}, 60_000)

test('the echo bot answers', async () => {
  await using world = await openWorld()
  const bot = await runPolling(world, echo)
  try {
    await world.phone('say', '{"text": "你好"}')
    await until(
      'the echo',
      async () => (await world.phone('chat')).includes('bot: You said: 你好') || undefined,
    )
  } finally {
    await bot.end('SIGKILL')
  }
}, 30_000)

test('the bot with handlers saves pictures, answers texts and ends with Ctrl-C', async () => {
  await using world = await openWorld()
  const bot = await runPolling(world, handlers)
  try {
    const picture = await Bun.file(join(root, 'node_modules/swagger-ui-dist/favicon-32x32.png')).arrayBuffer()
    await world.phone('media?kind=image&name=dot.png', picture)
    await world.phone('say', '{"text": "louder"}')
    await until('the answer', async () => (await world.phone('chat')).includes('bot: LOUDER') || undefined)
    await until('the picture', () => / sent \S+: 628 bytes\n/.test(bot.output()) || undefined)
    expect(await bot.end('SIGINT')).toBe(0)
  } finally {
    await bot.end('SIGKILL')
  }
}, 30_000)

test('the look shows what is there and ends', async () => {
  await using world = await openWorld()
  await world.phone('say', '{"text": "anybody?"}')
  const program = run(look)
  expect(await program.exited).toBe(0)
  expect(program.output()).toContain('anybody?')
}, 40_000)
