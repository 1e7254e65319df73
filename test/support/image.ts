/** Parses the Dockerfile and .dockerignore. */
import { readdirSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

const root = join(import.meta.dir, '../..')
const text = (name: string) => readFile(join(root, name), 'utf8')

/**
 * An instruction: `RUN true` is `{ word: 'RUN', rest: 'true' }`. Continuation lines are joined, and gaps
 * are one space.
 */
export interface Instruction {
  word: string
  rest: string
}

/** Instructions of each stage (from one FROM to the next); the last stage is the image. */
export const stages: Instruction[][] = []
for (const line of (await text('Dockerfile'))
  .replace(/^#.*\n/gm, '')
  .replace(/\\\n/g, ' ')
  .split('\n')) {
  const [, word, rest = ''] = /^(\S+)\s+(.*)$/.exec(line) ?? []
  if (word === undefined) continue
  if (word === 'FROM') stages.push([])
  stages.at(-1)?.push({ word, rest: rest.replace(/\s+/g, ' ') })
}
const image = stages.at(-1) ?? []

/** Returns the arguments of each `word` instruction of a stage; default: of the image. */
export const linesOf = (word: string, stage = image): string[] =>
  stage.filter(line => line.word === word).map(({ rest }) => rest)

/**
 * Returns the arguments of an instruction that the image has exactly once.
 *
 * @throws Error otherwise
 */
export function lineOf(word: string): string {
  const [line, more] = linesOf(word)
  if (line !== undefined && more === undefined) return line
  throw new Error(`Dockerfile: expected one ${word} in the last stage, found ${linesOf(word).length}`)
}

/** Parses `a=1 b="two words"`. */
export const pairsIn = (line: string): Record<string, string> =>
  Object.fromEntries(
    [...line.matchAll(/(\S+?)=("[^"]*"|\S+)/g)].map(([, name, value = '']) => [
      name,
      value.replaceAll('"', ''),
    ]),
  )

/** What every service of a compose file has. */
export const hardened = {
  read_only: true,
  cap_drop: ['ALL'],
  security_opt: ['no-new-privileges:true'],
  pids_limit: 512,
  ulimits: { core: 0 },
}

/** Configuration of the image, as the engine reads it. */
export const config = {
  env: pairsIn(lineOf('ENV')),
  user: Number(lineOf('USER').split(':')[0]),
  start: [...JSON.parse(lineOf('ENTRYPOINT')), ...JSON.parse(lineOf('CMD'))] as string[],
  health: JSON.parse(lineOf('HEALTHCHECK').replace(/^.* CMD /, '')) as string[],
  ports: lineOf('EXPOSE').split(' '),
}

const rules = (await text('.dockerignore'))
  .split('\n')
  .filter(line => line !== '' && !line.startsWith('#'))
  .map(line => ({ lets: line.startsWith('!'), pattern: line.replace('!', '') }))

/** Returns true if the engine gets a file: the last rule for it or for a folder above it counts. */
function isSent(path: string): boolean {
  const above = path.split('/').map((_, index, parts) => parts.slice(0, index + 1).join('/'))
  const fits = ({ pattern }: { pattern: string }) => above.some(part => new Bun.Glob(pattern).match(part))
  return rules.findLast(fits)?.lets ?? true
}

/** Returns the paths of all files that the engine gets. */
export function sentFiles(): string[] {
  // Everything is excluded except what the rules name, so only those top folders are searched.
  const tops = new Set(rules.filter(({ lets }) => lets).map(({ pattern }) => pattern.split('/')[0] ?? ''))
  return [...tops].flatMap(top => [...filesBelow(top)]).filter(isSent)
}

function* filesBelow(path: string): Generator<string> {
  if (statSync(join(root, path)).isFile()) return yield path
  for (const name of readdirSync(join(root, path))) {
    if (name !== 'node_modules') yield* filesBelow(`${path}/${name}`)
  }
}
