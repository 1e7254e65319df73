/**
 * Loaded before the tests of behaviour: replaces the words of all errors, so that code that reads a
 * sentence fails.
 */
import { readFile } from 'node:fs/promises'
import { plugin } from 'bun'

/**
 * Replaces each word of a text by the same nonsense word, which contains a number. Keeps what is not a
 * sentence's word: commands with their flags and programs, methods of HTTP before a path, paths, addresses, numbers,
 * quoted names, and the proposals of a question.
 */
function spoken(text: string): string {
  const names = /((?:GET|POST|PUT|DELETE)(?= \/)|svc(?: [a-z-]+){1,2}(?: -- [a-z-]+(?= -)|(?= [-<]|\?)))/u
  const word = /(?<=^|[\s(])\p{L}+(?:[-’']\p{L}+)*(?=[.,;:!)]*(?:\s|$))/u
  const either = new RegExp(`${names.source}|${word.source}`, 'gu')
  return text.replace(either, (_, command?: string) => command ?? 'frob7')
}

const head = 'constructor(code: ErrorCode, problem: string, options: SvcErrorOptions = {}) {'
const nonsense = `
    const spoken: (text: string) => string = ${spoken}
    problem = spoken(problem)
    options = {
      ...options,
      hint: options.hint && spoken(options.hint),
      details: options.details?.errors
        ? { ...options.details, errors: options.details.errors.map(one => ({ ...one, problem: spoken(one.problem) })) }
        : options.details,
    }`
const returned = "return [hint, step].filter(Boolean).join(' ')"

/** Replacements by file: [text to replace, replacement]. */
const changes: Readonly<Record<string, readonly [from: string, to: string]>> = {
  error: [head, head + nonsense],
  'next-step': [returned, `${returned.replace('return ', `return (${spoken})(`)})`],
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
