/**
 * Preloaded into svc, counts what its code does. On SIGUSR2 it writes a line `calls <JSON>` to stderr, the counts since
 * the last one, and starts again:
 *
 * - `file:function` of `src`: calls of a function
 * - `fs:name`: calls of a function of `node:fs` by `src`
 * - `await`: awaits in `src`
 * - `statements`, `commits`: what SQLite was given
 * - `written`: bytes that the process has written to files, where the system counts them
 */
import { readFileSync, writeSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type AnyNode, type Function as Callable, type Node, type Program, parse } from 'acorn'
import { ancestor } from 'acorn-walk'
import { countStatements } from './statements.ts'

const root = join(import.meta.dirname, '../..')

let counts = new Map<string, number>()
const sql = countStatements()
let before = { statements: 0, commits: 0, written: writtenSoFar() }

Object.assign(globalThis, {
  countCall: (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1),
})

process.on('SIGUSR2', () => {
  const { statements, commits } = sql
  const now = { statements, commits, written: writtenSoFar() }
  for (const name of ['statements', 'commits', 'written'] as const)
    if (now[name] > before[name]) counts.set(name, now[name] - before[name])
  writeSync(2, `calls ${JSON.stringify(Object.fromEntries(counts))}\n`)
  counts = new Map()
  before = { ...now, written: writtenSoFar() }
})

function writtenSoFar(): number {
  if (process.platform !== 'linux') return 0
  return Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0)
}

const transpiler = new Bun.Transpiler({ loader: 'ts', target: 'bun' })

Bun.plugin({
  name: 'calls',
  setup(build) {
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => ({
      contents: withCounts(transpiler.transformSync(readFileSync(path, 'utf8')), relative(root, path)),
      loader: 'js',
    }))
  },
})

/** Adds calls of `countCall` to the code of a file. */
function withCounts(code: string, file: string): string {
  const added: { at: number; text: string }[] = []
  const wrap = ({ start, end }: Node, name: string) =>
    added.push({ at: start, text: `(countCall(${JSON.stringify(name)}),(` }, { at: end, text: '))' })
  const program = parse(code, { ecmaVersion: 'latest', sourceType: 'module' })
  const ofFs = namesOfFs(program)
  ancestor(program, {
    Function: (node: Callable, _state: unknown, ancestors: AnyNode[]) => {
      const name = `${file}:${nameOf(node, ancestors.at(-2)) ?? '?'}`
      const { body } = node
      if (body.type === 'BlockStatement')
        added.push({ at: body.start + 1, text: `countCall(${JSON.stringify(name)});` })
      else wrap(body, name)
    },
    AwaitExpression: ({ argument }) => wrap(argument, 'await'),
    CallExpression: ({ callee }) => {
      if (callee.type === 'Identifier' && ofFs.has(callee.name)) wrap(callee, `fs:${ofFs.get(callee.name)}`)
    },
  })
  let text = ''
  let from = 0
  for (const { at, text: more } of added.toSorted((a, b) => a.at - b.at)) {
    text += code.slice(from, at) + more
    from = at
  }
  return text + code.slice(from)
}

/** Returns the functions of `node:fs` that a file imports, by the names that it gives them. */
function namesOfFs({ body }: Program): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const node of body)
    if (node.type === 'ImportDeclaration' && /^(node:)?fs(\/promises)?$/.test(String(node.source.value)))
      for (const { local, ...specifier } of node.specifiers)
        if ('imported' in specifier && specifier.imported.type === 'Identifier')
          names.set(local.name, specifier.imported.name)
  return names
}

function nameOf(node: Callable, parent: AnyNode | undefined): string | undefined {
  const named =
    node.id ?? (parent && 'key' in parent ? parent.key : parent && 'id' in parent ? parent.id : undefined)
  return named && 'name' in named ? named.name : undefined
}
