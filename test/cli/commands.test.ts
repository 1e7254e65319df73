/** What holds for every command, whatever it does: one walk over all of them, and over the operations behind them. */
import { describe, expect, test } from 'bun:test'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandSpec } from '../../src/cli/command.ts'
import { Command } from '../../src/cli/command.ts'
import { declareFlags, readTypedInput } from '../../src/cli/input-flags.ts'
import { processIo } from '../../src/cli/terminal.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { svc } from '../support/command.ts'
import { type Commanded, commanded, lineOf, nameOf, operationOf, specs } from '../support/command-lines.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'

const home = folderOfFile()
const missing = join(home, 'missing')
const present = join(home, 'present')
await mkdir(present, { mode: 0o700 })
const specOf = (operation: Commanded) => specs.find(spec => operationOf(spec) === operation) as CommandSpec
const each = specs.map(spec => [spec.words, spec] as const)
const ofOperations = commanded.map(one => [one.cli.path.join(' '), one] as const)

interface Told {
  readonly code: string
  readonly detail: string
  readonly hint: string
  readonly details?: { readonly errors: { field: string; problem: string }[] }
}

/** The error of a command line: one line on stderr, with `--json` one object that says the same, and nothing on stdout. */
async function errorOf(args: readonly string[], status: number, dir = missing): Promise<Told> {
  const place = ['-d', dir]
  const ended = await svc([...args, ...place], { home })
  expect([args, ended]).toEqual([
    args,
    { status, stdout: '', stderr: expect.stringMatching(/^error: [^\n]+\n$/) },
  ])
  const asJson = await svc([...args, ...place, '--json'], { home })
  expect([args, asJson.status, asJson.stdout]).toEqual([args, status, ''])
  const error: Told = JSON.parse(asJson.stderr)
  for (const said of [error.detail, error.hint]) expect(ended.stderr).toContain(said)
  expect(await readdir(home)).toEqual(['present'])
  return error
}

/** Wrong usage of an operation ends with 2 and names what was typed. @returns what is wrong with it */
async function refused(args: readonly string[], field: string): Promise<string> {
  const { code, details } = await errorOf(args, 2)
  expect([args, code, details?.errors.map(one => one.field)]).toEqual([args, 'invalid_arguments', [field]])
  return details?.errors[0]?.problem ?? ''
}

/** The arguments of a command, without running it. */
function declared(spec: CommandSpec): Command {
  const command = new Command('it', processIo())
  spec.addOptions?.(command)
  return command
}

describe('an option that is none of its own, an argument left out, a word too many', () => {
  test.each(each)('svc %s', async (_words, spec) => {
    const { registeredArguments } = declared(spec)
    const words = spec.words.split(' ')
    const wrong: [args: string[], typed: string][] = [[[...lineOf(spec), '--nope'], '--nope']]
    if (!registeredArguments.at(-1)?.variadic)
      wrong.push([[...words, ...Array<string>(registeredArguments.length + 1).fill('zsh')], ''])
    for (const [nth, argument] of registeredArguments.entries())
      if (argument.required) wrong.push([[...words, ...Array<string>(nth).fill('a@b')], argument.name()])
    for (const [args, typed] of wrong) {
      const { status, stdout, stderr } = await svc(args, { home })
      // A hook that ends with 2 blocks the agent.
      expect([args, status, stdout]).toEqual([args, spec.words.startsWith('hook-') ? 1 : 2, ''])
      expect(stderr).toMatch(/^error: [^\n]+\n$/)
      expect(stderr).toContain(typed)
    }
    expect(await readdir(home)).toEqual(['present'])
  })
})

describe('a value that its schema refuses is named as it was typed, and leaves no trace', () => {
  test.each(ofOperations)('svc %s', async (_words, operation) => {
    const line = lineOf(specOf(operation))
    const { options } = declared(specOf(operation))
    const { cli, inputSchema } = operation
    for (const [key, schema] of Object.entries(inputSchema.properties ?? {})) {
      const isPlaced = (cli.positionals ?? []).includes(key)
      if (cli.untyped?.includes(key) || (isPlaced && inputSchema.required?.includes(key))) continue
      const flag = `--${nameOf(operation, key)}`
      const short = cli.short?.[key] && `-${cli.short[key]}`
      const given = line.indexOf(flag)
      const others = given < 0 ? line : line.toSpliced(given, 2)
      const isTime = key === 'since' || key === 'until'
      const wrong =
        {
          integer: [
            'soon',
            `${(schema.minimum ?? 0) - 1}`,
            ...(schema.maximum ? [`${schema.maximum + 1}`] : []),
          ],
          number: ['soon', `${(schema.minimum ?? 0) - 1}`],
          object: ['no colon'],
          string: schema.enum ? ['dance'] : [],
          array: schema.items?.enum
            ? ['dance']
            : schema.items?.type === 'string'
              ? ['']
              : ['no JSON', '{kind:1}'],
        }[schema.type ?? ''] ?? (isTime ? ['last week'] : [])
      for (const value of wrong) {
        await refused([...others, flag, value], flag)
        await refused([...others, `${flag}=${value}`], flag)
        if (short) await refused([...others, `${short}${value}`], short)
      }
      // The choices are those of the help, and of the shell.
      if (schema.enum) {
        const { argChoices = [] } = options.find(({ long }) => long === flag) ?? {}
        expect(argChoices).toEqual(schema.enum.map(one => String(one).toLowerCase()))
        const problem = await refused([...others, flag, 'dance'], flag)
        expect(problem.split(', ').length).toBe(argChoices.length + 1)
        expect(problem).toEndWith(' "dance"')
      }
      if (isPlaced && line.length === cli.path.length) await refused([...line, 'a', flag, 'b'], flag)
    }
  })
})

test('an option left out is told in words of the command line', async () => {
  const needed = commanded.flatMap(one =>
    (one.inputSchema.required ?? [])
      .filter(key => !one.cli.positionals?.includes(key))
      .map(key => [one, key] as const),
  )
  expect(needed.map(([, key]) => key)).toEqual(['from', 'to'])
  for (const [one, key] of needed) {
    const flag = `--${nameOf(one, key)}`
    const line = lineOf(specOf(one))
    const problem = await refused(line.toSpliced(line.indexOf(flag), 2), flag)
    const elsewhere = await failure(Promise.try(() => one.parse({ id: 'wh_1' })))
    expect(elsewhere.message.length).toBeGreaterThan(problem.length * 5)
  }
})

/** An example as somebody types it: places first, or with a flag each. */
function typed(
  { cli, inputSchema }: Commanded,
  input: Readonly<Record<string, unknown>>,
  isPlaced: boolean,
): string[] {
  const placed = isPlaced ? (cli.positionals ?? []).filter(key => key in input) : []
  const needed = (cli.positionals ?? []).filter(key => inputSchema.required?.includes(key))
  const bare = isPlaced ? placed : needed
  const flags = Object.entries(input).filter(([key, value]) => !bare.includes(key) && value !== false)
  return [
    ...bare.map(key => String(input[key])),
    ...flags.flatMap(([key, value]) => asFlags(`--${cli.names?.[key] ?? key.replaceAll('_', '-')}`, value)),
  ]
}

function asFlags(flag: string, value: unknown): string[] {
  if (value === true) return [flag]
  if (Array.isArray(value))
    return value.flatMap(one => [flag, typeof one === 'string' ? one : JSON.stringify(one)])
  if (typeof value === 'object')
    return Object.entries(value ?? {}).flatMap(([name, text]) => [flag, `${name}: ${text}`])
  return [flag, String(value)]
}

describe('what is typed is the input of its operation', () => {
  test.each(ofOperations)('svc %s', async (_words, operation) => {
    for (const { input = {} } of operation.examples)
      for (const isPlaced of [true, false]) {
        const command = new Command('it', processIo())
        declareFlags(operation, command)
        command.parse(typed(operation, input, isPlaced), { from: 'user' })
        const meant = operation.parse({ ...operation.cli.defaults, ...input })
        expect(operation.parse(await readTypedInput(operation, command))).toEqual(meant)
      }
  })
})

/** An empty name comes from a variable of a script that was never set. */
describe('an empty name is no name left out', () => {
  test.each(each)('svc %s', async (_words, spec) => {
    const { options, registeredArguments } = declared(spec)
    const naming = ['id', 'message-id', 'session', 'old-name', 'user']
    // One that asks first is told not to.
    const unasked = operationOf(spec)?.cli.question ? ['--yes'] : []
    for (const [nth, argument] of registeredArguments.entries())
      if (naming.includes(argument.name())) {
        const args = registeredArguments.filter(({ required }) => required).map(() => 'a@b')
        await refused(
          [...spec.words.split(' '), ...args.toSpliced(nth, 1, ''), ...unasked],
          `<${argument.name()}>`,
        )
      }
    for (const { flags, long, short } of options)
      if (naming.includes(/<([^>]+)>/.exec(flags)?.[1] ?? ''))
        for (const flag of [long, short].flatMap(one => one ?? []))
          await refused([...lineOf(spec), flag, ''], flag)
  })
})

/** What is not there for want of a data directory, where that is more than a login. */
const absent: Readonly<Record<string, string>> = {
  download: 'message_not_found',
  logout: 'session_not_found',
  'sessions rename': 'session_not_found',
  'sessions default': 'session_not_found',
}

describe('where there is no data directory, none is made', () => {
  test.each(ofOperations.filter(([words]) => words !== 'login'))('svc %s', async (words, operation) => {
    const line = lineOf(specOf(operation))
    const ended = await svc([...line, '-d', missing], { home })
    const asJson = await svc([...line, '-d', missing, '--json'], { home })
    expect(ended.stdout).toBe('')
    expect(ended.stderr).toContain(`svc login -d ${missing}`)
    // What asks for nothing by name only looks. These two ask WeChat besides, where there is an account.
    // A file without anything in it would only hide a misspelt directory.
    const isLook =
      operation.effect === 'read' && !operation.audited && (operation.inputSchema.required ?? []).length === 0
    if (!isLook && !['recv', 'check'].includes(words))
      expect([words, (await errorOf(line, 1)).code]).toEqual([words, absent[words] ?? 'not_connected'])
    else {
      // There is nothing to see. No account works either.
      const status = words === 'check' ? 1 : 0
      expect([words, ended.status, asJson.status]).toEqual([words, status, status])
      expect(problemsOf(operation.output, JSON.parse(asJson.stdout))).toEqual([])
      const { names, properties } = { names: operation.cli.names, ...operation.inputSchema }
      if (properties?.session)
        expect(await errorOf([...line, '--session', 'nope'], 1)).toMatchObject({ code: 'session_not_found' })
      if (properties?.user_id && names?.user_id === 'user') {
        await refused([...line, '--user', 'Mum'], '--user')
        expect((await svc([...line, '--user', 'a@b', '-d', missing], { home })).status).toBe(0)
      }
    }
    expect(await readdir(home)).toEqual(['present'])
  })
})

describe('what is not there is an error that says what to do', () => {
  test.each(ofOperations)('svc %s', async (words, operation) => {
    const { properties = {}, required = [] } = operation.inputSchema
    const line = lineOf(specOf(operation))
    // The audit log has lines about the failed calls before.
    if ('session' in properties && words !== 'audit')
      expect(await errorOf([...line, '--session', 'nope'], 1, present)).toMatchObject({
        code: 'session_not_found',
      })
    if (required.includes('id') || required.includes('message_id')) {
      const { code } = await errorOf(line, 1, present)
      expect([words, code]).toEqual([words, words === 'download' ? 'message_not_found' : 'not_found'])
    }
    expect(await readdir(home)).toEqual(['present'])
  })
})

test('what only reads takes a directory of the sandbox as what it is, and nothing else does', async () => {
  await mkdir(join(home, 'simulated', 'sandbox'), { recursive: true, mode: 0o700 })
  const place = ['-d', join(home, 'simulated')]
  for (const words of [['status'], ['events']])
    expect([words, (await svc([...words, ...place], { home })).status]).not.toEqual([words, 2])
  for (const operation of commanded) {
    const line = lineOf(specOf(operation))
    const { status, stderr } = await svc([...line, ...place], { home })
    const isRefused = status === 2 && stderr.includes('--sandbox')
    expect([line, isRefused]).toEqual([line, operation.effect !== 'read'])
  }
})
