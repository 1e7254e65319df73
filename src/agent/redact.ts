/**
 * Turns what a program said into one line for people on WeChat: cleaned, cut, and without secrets. When in doubt, a
 * word is left out: the whole text is in the log and in `svc agent turns`, on this machine.
 */
import { type Environment, getEnvironment } from '../config.ts'
import { toOneLine } from './question-text.ts'
import { toPlainText } from './terminal.ts'

const longest = 200
/** A longer line loses its middle. */
const longestLine = 10_000
const hidden = '…'
/** Values of the environment with fewer characters are not hidden: they are parts of most texts. */
const shortest = 4
/** Shorter values are often words. They are hidden only where they stand alone. */
const glued = 8

/** Lines that do not say why a program failed: stack traces, and the usage after a wrong option. */
const noise =
  /^\s*(at\s.*|Node\.js v.*|Bun v.*|[\^~|\s-]+|note: run with .*|\}|\]|(usage|tip|hint):.*|(try|see|for more information)\b.*--help.*)$/i
const isSecretName = /key|token|secret|pass|auth|cred|cookie|session|dsn|pwd(?!$)/i

/** Forms of keys, in any surroundings. */
const keys: readonly RegExp[] = [
  /-----BEGIN.*/g,
  // A name and its value: password=…, "api_key": "…", Authorization: Bearer …
  /(?<=(?:key|token|secret|passw(?:or)?d|passwd|pwd|passphrase|authorization|credentials?|cookie)["']?\s*[:=]\s*["']?)(?:(?:bearer|basic)\s+)?[^\s"',;&]+/gi,
  /(?<=\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}/gi,
  // Name and password, and the query, of an address.
  /(?<=:\/\/)[^\s/@]+@/g,
  /(?<=:\/\/[^\s?#]+)[?#]\S+/g,
  /\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[a-z]|xapp|hf|npm|pypi|gsk|xai|r8|dop_v1|shpat|whsec|AKIA|ASIA|AIza|ya29|eyJ)[-_.]?[\w*.~-]{6,}/g,
  /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi,
  // Letters and digits mixed, without the end of a word.
  /\b(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{16,}\b/gi,
  /(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?=[\w-]*\d)[\w-]{20,}/g,
  /[a-z0-9+/_-]{24,}={1,2}/gi,
  /\b[a-z]{32,}\b/gi,
]

/** Returns the last line of a text that says something, for people on WeChat. */
export function toPublicLine(said: string, env: Environment = getEnvironment()): string {
  const lines = toPlainText(said)
    .split('\n')
    .filter(line => line.trim() !== '')
  const line = lines.findLast(one => !noise.test(one)) ?? lines.at(-1) ?? ''
  const plain = toOneLine(withoutSecrets(line, env), longestLine).trim()
  return plain.length > longest ? `${plain.slice(0, longest - 1).trimEnd()}…` : plain
}

/** Replaces the values of an environment, and whatever looks like a key, by `…`. */
export function withoutSecrets(text: string, env: Environment): string {
  const values = Object.entries(env).flatMap(([name, value = '']) => partsOf(name, value))
  let left = text
  // Longer values first: one may be a part of another.
  for (const { isWord, value } of values.sort((a, b) => b.value.length - a.value.length)) {
    if (!left.includes(value)) continue
    const plain = value.replace(/[^\p{L}\p{N}]/gu, sign => `\\u{${sign.codePointAt(0)!.toString(16)}}`)
    left = left.replace(
      new RegExp(isWord ? `(?<![\\p{L}\\p{N}])${plain}(?![\\p{L}\\p{N}])` : plain, 'gu'),
      hidden,
    )
  }
  return keys.reduce((rest, key) => rest.replace(key, hidden), left)
}

/** Returns a value, its lines and its parts, such as the password in an address. */
function partsOf(name: string, value: string): { value: string; isWord: boolean }[] {
  const isSecret = isSecretName.test(name)
  const pieces = value.split(/[\s,;|&=@:"'{}[\]]+/).map(piece => piece.replace(/^\/\//, ''))
  const parts = [value.trim(), ...value.split('\n').map(line => line.trim()), ...pieces]
  return [...new Set(parts)].flatMap(part =>
    part.length < shortest ? [] : { value: part, isWord: !isSecret && part.length < glued },
  )
}
