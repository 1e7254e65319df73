/**
 * Makes the style of an exported page: `bun scripts/export-style.ts`. It has the rules of the panel for what the
 * page has, and those of `admin/styles/export.css`. The result is in the repository, since the sources must run
 * without a build; a test fails if it is not up to date.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')
export const exportStylePath = join(root, 'src/operations/export-page.css')

/** Elements of the page. */
const elements = /^(\*|html|body|main|nav|h[1-3]|p|ul|ol|li|a|blockquote|img|video|span|time|bdi)$/
const dark = ':root[data-theme="dark"]'

/** A rule, or a group of rules such as `@media`. */
interface Rule {
  head: string
  body: string
}

/** Splits a style sheet into its rules. */
function rulesOf(css: string): Rule[] {
  const rules: Rule[] = []
  for (let at = 0; ; ) {
    const open = css.indexOf('{', at)
    if (open < 0) return rules
    let close = open
    for (let depth = 1; depth > 0; ) depth += { '{': 1, '}': -1 }[css[++close]!] ?? 0
    rules.push({ head: css.slice(at, open).trim(), body: css.slice(open + 1, close).trim() })
    at = close + 1
  }
}

/** Whether a selector can match something in the page. What it excludes does not matter. */
function isUsed(selector: string, classes: ReadonlySet<string>): boolean {
  const plain = selector.replace(/:not\((?:[^()]|\([^()]*\))*\)/g, '').replace(/\[class\*="[^"]*"\]/g, '')
  if (/[#[]|:(?!:?(before|is|has|root|focus-visible))/.test(plain)) return false
  const names = plain.match(/\.?[*\w-]+(?![\w-]*\()/g) ?? []
  return names.every(name =>
    name.startsWith('.')
      ? classes.has(name.slice(1))
      : /^(before|root|focus-visible)$/.test(name) || elements.test(name),
  )
}

/** Returns the rules that the page needs, with those of the dark theme for readers whose system is dark. */
function select(rules: readonly Rule[], classes: ReadonlySet<string>): string {
  return rules
    .map(({ head, body }) => {
      if (head.startsWith('@')) {
        const inner = /760px|print/.test(head) ? select(rulesOf(body), classes) : ''
        return inner.trim() && `${head}{${inner}}`
      }
      const isDark = head.includes('[data-theme="dark"]')
      const selectors = head
        .replaceAll(dark, ':root')
        .replaceAll('[data-theme="dark"] ', '')
        .split(/,\s*(?!(?:[^()]|\([^()]*\))*\))/)
        .filter(selector => isUsed(selector, classes))
      if (selectors.length === 0) return ''
      const rule = `${selectors.join(',')}{${body}}`
      return isDark ? `@media (prefers-color-scheme: dark){${rule}}` : rule
    })
    .join('\n')
}

/** Drops the values of `:root` that nothing uses. */
function withoutUnused(css: string): string {
  const kept = css.replace(/(--[\w-]+):[^;}]+;/g, (all, name: string) =>
    css.includes(`var(${name})`) || css.includes(`var(${name},`) ? all : '',
  )
  return kept === css ? css : withoutUnused(kept)
}

/** Returns the style. */
export async function makeExportStyle(): Promise<string> {
  const style = (name: string) => readFile(join(root, 'admin/styles', name), 'utf8')
  const page = await readFile(join(root, 'src/operations/export-page.ts'), 'utf8')
  const words = [...page.matchAll(/class="([^"]*)"|' (flows|bare|first)'/g)].flatMap(
    ([all]) => all.match(/[\w-]+/g)!,
  )
  const states = [
    'in',
    'out',
    'refused',
    'suspect',
    'unknown',
    ...Array.from({ length: 8 }, (_, hue) => `hue-${hue}`),
  ]
  const names = [...(await style('index.css')).matchAll(/"\.\/(.*?)"/g)].map(([, name]) => name!)
  const sheets = await Promise.all([...names, 'export.css'].map(style))
  const rules = sheets.flatMap(sheet => rulesOf(sheet.replace(/\/\*[\s\S]*?\*\//g, '')))
  const css = withoutUnused(select(rules, new Set([...words, ...states])))
  const plain = css
    .replace(/\s+/g, ' ')
    .replace(/ ?([{};]) ?/g, '$1')
    .replaceAll(';}', '}')
    .replace(/: (?=[^{}]*[;}])/g, ':')
  return `/* Made by scripts/export-style.ts from admin/styles. */\n${plain
    .replaceAll('}', '}\n')
    .replace(/\n(?=\})/g, '')
    .trim()}\n`
}

/** Writes the style, if it has changed. */
export async function writeExportStyle(): Promise<void> {
  const style = await makeExportStyle()
  if (style !== (await readFile(exportStylePath, 'utf8'))) await writeFile(exportStylePath, style)
}

if (import.meta.main) await writeExportStyle()
