/** Loaded before the tests of behaviour: every error says nonsense, so that whatever reads a sentence fails. */
import { readFile } from 'node:fs/promises'
import { plugin } from 'bun'

const [said, advised] = ['xyzzy 7 frobs', 'Plugh the 3 grues.']

const head = 'constructor(code: ErrorCode, problem: string, options: SvcErrorOptions = {}) {'
const nonsense = `
    problem = '${said}'
    options = {
      ...options,
      hint: options.hint && '${advised}',
      details: options.details?.errors
        ? { ...options.details, errors: options.details.errors.map(one => ({ ...one, problem })) }
        : options.details,
    }`
const returned = "return [hint, step].filter(Boolean).join(' ')"

/** File → what is put in place of what. */
const changes: Readonly<Record<string, readonly [from: string, to: string]>> = {
  error: [head, head + nonsense],
  'next-step': [returned, `return hint || step ? '${advised}' : ''`],
}

plugin({
  name: 'nonsense',
  setup(build) {
    build.onLoad({ filter: /\/src\/model\/(error|next-step)\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8')
      const [from, to] = changes[/([\w-]+)\.ts$/.exec(path)![1]!]!
      if (!text.includes(from)) throw new Error(`${path} has changed: there is no ${from}`)
      return { contents: text.replace(from, () => to), loader: 'ts' }
    })
  },
})
