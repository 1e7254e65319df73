/**
 * Parses the panel's sources: finds which texts of `locales/` they use, and which texts they contain
 * themselves.
 */
import { join, relative, resolve } from 'node:path'
import {
  type CallExpression,
  type Expression,
  type JsxAttribute,
  type Node,
  SyntaxKind,
} from 'typescript/unstable/ast'
import * as is from 'typescript/unstable/ast/is'
import { API } from 'typescript/unstable/async'

const root = resolve(import.meta.dirname, '../..')

/** A call of `t()`. */
interface Asked {
  /** Position as file:line. */
  where: string
  /** Keys written in the call; undefined for a computed key. */
  keys: readonly string[] | undefined
  /** For a template: the keys that it can produce. */
  pattern?: RegExp
  /** Names of the parameters; undefined if they are computed. */
  params: readonly string[] | undefined
}

export interface Sources {
  asked: readonly Asked[]
  /** All string literals. */
  strings: ReadonlySet<string>
  /** Texts outside `t()`, as `file:line text`. */
  loose: readonly string[]
}

/** Attributes that users see or hear. */
const spoken =
  /^(aria-(label|description|valuetext|roledescription|placeholder)|alt|title|placeholder|label|description)$/
/** The program's name is the same in every language. */
const names = /\bsvc\b/g
const isText = (text: string) => /\p{L}/u.test(text.replace(names, ''))

/** Parses `admin/**`. `files` (content by path) replaces it in the test of this parser. */
export async function readSources(files?: Readonly<Record<string, string>>): Promise<Sources> {
  const config = join(root, 'tsconfig.json')
  const paths = files
    ? Object.keys(files).map(name => join(root, 'admin', name))
    : [...new Bun.Glob('admin/**/*.{ts,tsx}').scanSync(root)].map(name => join(root, name))
  const api = new API({
    cwd: root,
    ...(files && {
      fs: {
        readFile: (path: string) => {
          const name = relative(join(root, 'admin'), path)
          return path === config
            ? JSON.stringify({ files: paths, compilerOptions: { jsx: 'preserve' } })
            : files[name]
        },
        fileExists: (path: string) => (paths.includes(path) ? true : undefined),
      },
    }),
  })
  try {
    const snapshot = await api.updateSnapshot({ openProjects: [config] })
    const project = snapshot.getProjects()[0]!
    const found: Sources & { asked: Asked[]; strings: Set<string>; loose: string[] } = {
      asked: [],
      strings: new Set(),
      loose: [],
    }
    for (const path of paths.sort()) {
      const file = await project.program.getSourceFile(path)
      if (!file) throw new Error(`${path} is not part of the program`)
      const where = (node: Node) => {
        const line = file.text.slice(0, node.getStart(file)).split('\n').length
        return `${relative(root, path)}:${line}`
      }
      const walk = (node: Node): void => {
        if (is.isStringLiteral(node) || is.isNoSubstitutionTemplateLiteral(node)) found.strings.add(node.text)
        if (is.isCallExpression(node)) look(node)
        if (is.isJsxText(node)) note(node, node.text)
        if (is.isJsxAttribute(node)) attribute(node)
        if (is.isJsxExpression(node) && node.expression && !is.isJsxAttribute(node.parent)) {
          for (const { node: at, text } of values(node.expression)) note(at, text)
        }
        node.forEachChild(walk)
      }
      const note = (node: Node, text: string) => {
        if (isText(text)) found.loose.push(`${where(node)} ${text.trim()}`)
      }
      const attribute = ({ name, initializer }: JsxAttribute) => {
        if (!initializer || !spoken.test(name.getText(file))) return
        const value = is.isJsxExpression(initializer) ? initializer.expression : (initializer as Expression)
        if (value) for (const { node, text } of values(value)) note(node, text)
      }
      const look = (call: CallExpression) => {
        const [first, second] = call.arguments
        if (!is.isIdentifier(call.expression) || !first) return
        const called = call.expression.text
        if (called === 'tell') for (const { node, text } of values(first)) note(node, text)
        if (called !== 't') return
        const keys = values(first)
        found.asked.push({
          where: where(call),
          keys:
            keys.length > 0 && keys.every(({ whole }) => whole) ? keys.map(({ text }) => text) : undefined,
          params: second === undefined ? [] : paramsOf(second),
          ...(is.isTemplateExpression(first) && {
            pattern: new RegExp(`^${values(first)[0]!.text.replaceAll('.', '\\.').replaceAll(' ', '\\w+')}$`),
          }),
        })
      }
      walk(file)
    }
    return found
  } finally {
    await api.close()
  }
}

/** Returns the strings that an expression can evaluate to, as far as they are written in it. */
function values(node: Node): { node: Node; text: string; whole: boolean }[] {
  if (is.isParenthesizedExpression(node)) return values(node.expression)
  if (is.isConditionalExpression(node)) return [...values(node.whenTrue), ...values(node.whenFalse)]
  if (is.isBinaryExpression(node)) {
    const sides = node.operatorToken.kind === SyntaxKind.PlusToken ? [node.left, node.right] : [node.right]
    return sides.flatMap(values)
  }
  if (is.isStringLiteral(node) || is.isNoSubstitutionTemplateLiteral(node)) {
    return [{ node, text: node.text, whole: true }]
  }
  if (is.isTemplateExpression(node)) {
    const text = [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join(' ')
    return [{ node, text, whole: false }]
  }
  return []
}

function paramsOf(node: Node): string[] | undefined {
  if (!is.isObjectLiteralExpression(node)) return undefined
  const names = node.properties.map(property =>
    (is.isPropertyAssignment(property) || is.isShorthandPropertyAssignment(property)) &&
    is.isIdentifier(property.name)
      ? property.name.text
      : undefined,
  )
  return names.includes(undefined) ? undefined : (names as string[])
}
