/**
 * Preloaded into svc, counts the calls of each function of `src`. On SIGUSR2 it writes a line `calls <JSON>` to stderr,
 * the counts since the last one by `file:function`, and starts again.
 */
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type AnyNode, type Function as Callable, parse } from 'acorn'
import { ancestor } from 'acorn-walk'

const root = join(import.meta.dirname, '../..')

let counts = new Map<string, number>()

Object.assign(globalThis, {
  countCall: (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1),
})

process.on('SIGUSR2', () => {
  process.stderr.write(`calls ${JSON.stringify(Object.fromEntries(counts))}\n`)
  counts = new Map()
})

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

/** Adds a call of `countCall` to the start of each function. */
function withCounts(code: string, file: string): string {
  const added: { at: number; text: string }[] = []
  const add = (node: Callable, ancestors: AnyNode[]) => {
    const count = `countCall(${JSON.stringify(`${file}:${nameOf(node, ancestors.at(-2)) ?? '?'}`)})`
    const { start, end, type } = node.body
    if (type === 'BlockStatement') added.push({ at: start + 1, text: `${count};` })
    else added.push({ at: start, text: `(${count},(` }, { at: end, text: '))' })
  }
  ancestor(parse(code, { ecmaVersion: 'latest', sourceType: 'module' }), {
    Function: (node, _state, ancestors) => add(node, ancestors),
  })
  let text = ''
  let from = 0
  for (const { at, text: more } of added.toSorted((a, b) => a.at - b.at)) {
    text += code.slice(from, at) + more
    from = at
  }
  return text + code.slice(from)
}

function nameOf(node: Callable, parent: AnyNode | undefined): string | undefined {
  const named =
    node.id ?? (parent && 'key' in parent ? parent.key : parent && 'id' in parent ? parent.id : undefined)
  return named && 'name' in named ? named.name : undefined
}
