/**
 * `bun test/upgrade/surface.ts`: writes what svc offers to its users as `test/upgrade/surface.json`, which a test compares with the
 * sources. What is added is fine. What breaks a caller of the last release is refused, unless CHANGELOG.md names it under
 * "What breaks".
 */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { addCommand, type Command, Command as Program } from '../../src/cli/command.ts'
import { commandGroups, loadNeededCommands } from '../../src/cli/commands.ts'
import { processIo } from '../../src/cli/terminal.ts'
import { optionTable } from '../../src/config/options.ts'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import { Metrics, type MetricsPorts } from '../../src/gateway/metrics.ts'
import { errorCodes, errorKindOf } from '../../src/model/error.ts'
import { Events, WebhookTestEvent } from '../../src/model/event.ts'
import { toJsonSchema } from '../../src/operations/schema.ts'
import { tools } from '../../src/operations/tools.ts'
import { silentLog } from '../../src/platform/log.ts'
import { createOpenApiApp } from '../../src/server/openapi.ts'
import { runtimeOf } from '../support/runtime.ts'
import { breaksBetween, type Surface } from './breaks.ts'

const root = join(import.meta.dirname, '../..')
export const surfaceFile = join(import.meta.dirname, 'surface.json')

/** All that callers of svc can rely on, without the words that explain it. */
export async function readSurface(): Promise<Surface> {
  const app = createOpenApiApp({
    // No call is made.
    gateway: {} as Gateway,
    config: { host: '127.0.0.1', token: 'of-no-use-without-calls', allowHosts: [], maxUploadBytes: 1 },
    ...{ log: silentLog, version: '' },
  })
  const rest = await app.document()
  return JSON.parse(
    JSON.stringify({
      rest: { paths: rest.paths, schemas: (rest.components as { schemas: object }).schemas },
      tools: Object.fromEntries(
        tools.map(({ inputSchema, name, outputSchema }) => [name, { inputSchema, outputSchema }]),
      ),
      events: Object.fromEntries(
        [...Object.values(Events), WebhookTestEvent].map(event => [
          event.properties.type.const,
          toJsonSchema(event),
        ]),
      ),
      commands: await listCommands(),
      settings: Object.fromEntries(
        optionTable.map(({ choices, commands, default: usual, displayedDefault, env, flag }) => [
          env,
          {
            flag,
            usual: displayedDefault ?? (typeof usual === 'string' ? usual : undefined),
            choices,
            commands,
          },
        ]),
      ),
      errors: Object.fromEntries(errorCodes.map(code => [code, errorKindOf(code).status])),
      metrics: await listMetrics(),
      types: await listTypes(),
    }),
    // A schema is a promise; what describes it may change.
    (key, value) =>
      wordy.has(key) && typeof value !== 'object' ? undefined : key === 'examples' ? undefined : value,
  )
}
const wordy = new Set(['description', 'summary', 'title', 'contentMediaType'])

const isSetting = ({ flags }: { flags: string }) =>
  optionTable.some(
    ({ flag, placeholder, short }) =>
      [short && `${short},`, flag, placeholder].filter(Boolean).join(' ') === flags,
  )

/** Each command with its arguments and those options that are no settings. */
async function listCommands(): Promise<Surface['commands']> {
  const program = new Program('svc', processIo()).enablePositionalOptions()
  const line = { program, loadCommands: loadNeededCommands, status: 0 }
  const words = Object.values(commandGroups).flatMap(group => Object.keys(group))
  const specs = await Promise.all(words.map(word => loadNeededCommands([word])))
  for (const spec of new Set(specs.flat())) addCommand(line, spec)
  const found: Surface['commands'] = {}
  const visit = (command: Command, path: string[]) => {
    found[path.join(' ')] = {
      arguments: command.registeredArguments.map(({ required, variadic }) => ({ required, variadic })),
      options: Object.fromEntries(
        command.options
          .filter(option => !isSetting(option))
          .map(({ argChoices, defaultValue, flags, long, mandatory }) => [
            long ?? flags,
            { flags, mandatory, choices: argChoices, usual: defaultValue },
          ]),
      ),
    }
    for (const sub of command.commands) visit(sub, [...path, sub.name()])
  }
  for (const command of program.commands) visit(command, [command.name()])
  return found
}

/** The names of metrics with their labels, of a service in which each has a value. */
async function listMetrics(): Promise<Surface['metrics']> {
  const runtime = runtimeOf()
  const one = {
    name: 'one',
    id: 'one',
    created_at: 0,
    size: 0,
    position: 0,
    accounts: 1,
    unread: 0,
    tries: {},
  }
  const all = async () => [
    { ...one, reader: 'one', events: 0, people: [], is_this: true, lease_left_ms: 1, last_poll_at: 0 },
  ]
  const nobody = async () => undefined
  const ports = {
    store: {
      backlog: { countEvents: async () => 0, listReaderLags: all },
      backups: { list: all, getFailure: nobody },
      outbox: { getDepth: async () => ({ messages: 0 }) },
      topics: { list: all, countWaiting: async () => new Map() },
      webhooks: { list: all },
    },
    accounts: { list: all },
    consumers: { list: all },
    node: { clockOffsetMs: 0, leaseLeftMs: 0, list: all },
    version: '1',
  }
  const metrics = new Metrics(ports as unknown as MetricsPorts, runtime)
  using _task = runtime.tasks.register({ name: 'one', everyMs: 1, log: silentLog, failure: '' })
  metrics.watchCertificate({ current: { expiresAt: 0 } })
  metrics.answered({ method: 'GET', route: '/', status: 200, ms: 1 })
  runtime.bus.notify('polled', 'empty')
  runtime.bus.notify('received', 'TEXT')
  runtime.bus.notify('sent', 'accepted')
  const text = await metrics.text()
  return Object.fromEntries(
    text.split(/^# HELP /m).flatMap(part => {
      const [name = ''] = part.split(' ', 1)
      const labels = [...part.matchAll(/(?<=[{,])\w+(?==")/g)].map(([label]) => label)
      return name.startsWith('svc_') ? [[name, [...new Set(labels)].sort()]] : []
    }),
  )
}

/** What the library exports, and the lines of its declarations. */
async function listTypes(): Promise<Surface['types']> {
  const out = join(root, 'node_modules/.cache/svc-surface')
  const args = [
    '-p',
    join(root, 'tsconfig.package.json'),
    '--emitDeclarationOnly',
    '--declarationMap',
    'false',
  ]
  const tsc = Bun.spawn([join(root, 'node_modules/.bin/tsc'), ...args, '--outDir', out], {
    stdout: 'inherit',
  })
  if ((await tsc.exited) !== 0) throw new Error('the sources do not compile')
  try {
    // The other files repeat what operations take and answer.
    const files = ['client/api', 'client/handlers', 'client/svc', 'library/options', 'library/svc']
    const read = async (file: string) => linesOf(await readFile(join(out, `${file}.d.ts`), 'utf8'))
    return { index: await read('index'), library: (await Promise.all(files.map(read))).flat() }
  } finally {
    await rm(out, { recursive: true, force: true })
  }
}

/** The lines of declarations without comments, private parts and imports. */
const linesOf = (text: string): string[] =>
  text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/^import .*$/gm, '')
    // Each name that is exported is a line.
    .replace(/^export (?:type )?\{ (.*) \} from .*$/gm, (_, names: string) => names.replace(/,|type /g, '\n'))
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '' && !/^(private |#private|[{}]|export \{\})/.test(line))

/** Breaks against the file that the changelog does not name. */
export async function findUnnamedBreaks(now: Surface): Promise<string[]> {
  const kept: Surface = JSON.parse(await readFile(surfaceFile, 'utf8'))
  const changes = await readFile(join(root, 'CHANGELOG.md'), 'utf8')
  const unreleased = /^## Unreleased$([\s\S]*?)(?=^## |$(?![\s\S]))/m.exec(changes)?.[1] ?? ''
  const named = /^What breaks$([\s\S]*?)(?=^What |$(?![\s\S]))/m.exec(unreleased)?.[1] ?? ''
  return breaksBetween(kept, now)
    .filter(({ name }) => !named.includes(`\`${name}\``))
    .map(({ name, what }) => `${name}: ${what}`)
}

if (import.meta.main) {
  const now = await readSurface()
  const breaks = await findUnnamedBreaks(now)
  if (breaks.length > 0) {
    console.error(
      `These break callers, and CHANGELOG.md does not name them under "What breaks":\n${breaks.join('\n')}`,
    )
    process.exit(1)
  }
  await writeFile(surfaceFile, `${JSON.stringify(now, undefined, 1)}\n`)
}
