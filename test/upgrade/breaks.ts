/** What breaks callers of an earlier release: things that are gone, take less, or answer less. */
import type { JsonSchema } from '../../src/operations/schema.ts'

interface Body {
  readonly content?: Readonly<Record<string, { readonly schema?: JsonSchema }>>
}

interface Route {
  readonly operationId?: string
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly schema: JsonSchema
  }[]
  readonly requestBody?: Body
  readonly responses?: Readonly<Record<string, Body>>
}

interface Option {
  readonly flags: string
  readonly mandatory: boolean
  readonly choices?: readonly string[]
  readonly usual?: unknown
}

/** All that callers can rely on. */
export interface Surface {
  readonly rest: {
    readonly paths: Readonly<Record<string, Readonly<Record<string, Route>>>>
    readonly schemas: Readonly<Record<string, JsonSchema>>
  }
  readonly tools: Readonly<
    Record<string, { readonly inputSchema: JsonSchema; readonly outputSchema: JsonSchema }>
  >
  readonly events: Readonly<Record<string, JsonSchema>>
  readonly commands: Record<
    string,
    {
      readonly arguments: readonly { readonly required: boolean; readonly variadic: boolean }[]
      readonly options: Readonly<Record<string, Option>>
    }
  >
  readonly settings: Readonly<
    Record<
      string,
      {
        readonly flag?: string
        readonly usual?: string
        readonly choices?: readonly string[]
        readonly commands: readonly string[]
      }
    >
  >
  readonly errors: Readonly<Record<string, number>>
  readonly metrics: Readonly<Record<string, readonly string[]>>
  readonly types: Readonly<Record<string, readonly string[]>>
}

/** One break. The changelog names it by `name`. */
export interface Break {
  readonly name: string
  readonly what: string
}

const missing = (old: readonly string[] = [], now: readonly string[] = []) =>
  old.filter(one => !now.includes(one))
const equal = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** Returns what of `old` no longer holds in `now`. */
export function breaksBetween(old: Surface, now: Surface): Break[] {
  const found: Break[] = []
  const each = <T>(
    kind: string,
    before: Readonly<Record<string, T>>,
    after: Readonly<Record<string, T>>,
    compare: (a: T, b: T, say: (what: string) => void) => void,
  ) => {
    for (const [name, one] of Object.entries(before)) {
      const say = (what: string) => void found.push({ name, what: `${kind}: ${what}` })
      const other = after[name]
      if (other === undefined) say('is gone')
      else compare(one, other, say)
    }
  }
  const routes = ({ rest }: Surface) =>
    Object.fromEntries(
      Object.entries(rest.paths).flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, route]) => [`${method.toUpperCase()} ${path}`, route]),
      ),
    )
  const schemas = [old.rest.schemas, now.rest.schemas] as const
  each('route', routes(old), routes(now), (a, b, say) => compareRoutes(a, b, schemas, say))
  each('tool', old.tools, now.tools, (a, b, say) => {
    compareSchemas(a.inputSchema, b.inputSchema, { side: 'input', schemas: [{}, {}], say, at: '' })
    compareSchemas(a.outputSchema, b.outputSchema, { side: 'output', schemas: [{}, {}], say, at: '' })
  })
  each('event', old.events, now.events, (a, b, say) =>
    compareSchemas(a, b, { side: 'output', schemas: [{}, {}], say, at: '' }),
  )
  each('command', old.commands, now.commands, (a, b, say) => {
    if (b.arguments.some((one, nth) => one.required && !a.arguments[nth]?.required))
      say('needs another argument')
    if (b.arguments.length < a.arguments.length) say('takes fewer arguments')
    for (const [name, option] of Object.entries(a.options)) {
      const other = b.options[name]
      if (!other) say(`${name} is gone`)
      else if (!equal([option.flags, option.usual], [other.flags, other.usual])) say(`${name} differs`)
      else if (missing(option.choices, other.choices ?? option.choices).length > 0) say(`${name} takes less`)
    }
    for (const [name, { mandatory }] of Object.entries(b.options))
      if (mandatory && !a.options[name]?.mandatory) say(`needs ${name}`)
  })
  each('setting', old.settings, now.settings, (a, b, say) => {
    if (!equal([a.flag, a.usual], [b.flag, b.usual])) say('has another flag or default')
    if (missing(a.choices, b.choices ?? a.choices).length > 0) say('takes less')
    for (const command of missing(a.commands, b.commands)) say(`${command} no longer takes it`)
  })
  each('error', old.errors, now.errors, (a, b, say) => void (a !== b && say(`its status was ${a}`)))
  each('metric', old.metrics, now.metrics, (a, b, say) =>
    missing(a, b).forEach(label => void say(`${label} is gone`)),
  )
  each('types', old.types, now.types, (a, b, say) =>
    missing(a, b).forEach(line => void say(`no longer has: ${line}`)),
  )
  return found
}

type Schemas = readonly [Readonly<Record<string, JsonSchema>>, Readonly<Record<string, JsonSchema>>]

function compareRoutes(a: Route, b: Route, schemas: Schemas, say: (what: string) => void): void {
  if (a.operationId !== b.operationId) say(`its operation was ${a.operationId}`)
  const input = { side: 'input', schemas, say } as const
  for (const one of a.parameters ?? []) {
    const other = b.parameters?.find(({ in: place, name }) => name === one.name && place === one.in)
    if (!other) say(`${one.name} is gone`)
    else compareSchemas(one.schema, other.schema, { ...input, at: one.name })
  }
  for (const { name, required } of b.parameters ?? [])
    if (required && !a.parameters?.some(one => one.name === name && one.required)) say(`needs ${name}`)
  const bodies = (before: Body | undefined, after: Body | undefined, side: Side, at: string) => {
    for (const [type, { schema }] of Object.entries(before?.content ?? {})) {
      const other = after?.content?.[type]
      if (!other) say(`${at} ${type} is gone`)
      else if (schema && other.schema) compareSchemas(schema, other.schema, { side, schemas, say, at })
    }
  }
  bodies(a.requestBody, b.requestBody, 'input', 'body')
  for (const status of missing(Object.keys(a.responses ?? {}), Object.keys(b.responses ?? {})))
    say(`answers no ${status}`)
  for (const [status, answer] of Object.entries(a.responses ?? {}))
    bodies(answer, b.responses?.[status], 'output', status)
}

type Side = 'input' | 'output'
interface Comparison {
  readonly side: Side
  readonly schemas: Schemas
  /** Where the schema stands, for the message. */
  readonly at: string
  readonly say: (what: string) => void
}

const resolve = (schema: JsonSchema, names: Readonly<Record<string, JsonSchema>>): JsonSchema =>
  typeof schema.$ref === 'string' ? (names[schema.$ref.split('/').at(-1) ?? ''] ?? {}) : schema

/** Limits of input, and whether a greater number takes less. */
const limits = { minimum: 1, minLength: 1, minItems: 1, maximum: -1, maxLength: -1, maxItems: -1 } as const

/** An input must take all that it took; an output must have all that it had, and nothing of another type. */
function compareSchemas(one: JsonSchema, other: JsonSchema, comparison: Comparison): void {
  const { at, say, schemas, side } = comparison
  const [a, b] = [resolve(one, schemas[0]), resolve(other, schemas[1])]
  // Each named schema is compared once at each place of a name.
  if (equal(a, b) && !JSON.stringify(a).includes('$ref')) return
  const [wide, narrow] = side === 'input' ? [a, b] : [b, a]
  if (narrow.type !== undefined && !equal(a.type, b.type)) say(`${at}: its type was ${a.type}`)
  if (a.anyOf || b.anyOf) {
    const options = (schema: JsonSchema) =>
      (schema.anyOf ?? [schema]).map(entry => JSON.stringify(entry.$ref ?? entry.type ?? entry))
    if (missing(options(wide), options(narrow)).length > 0)
      say(`${at}: ${side === 'input' ? 'takes less' : 'may be something else'}`)
  }
  if (side === 'input') {
    if (
      missing(a.enum?.map(String), b.enum?.map(String) ?? a.enum?.map(String)).length > 0 ||
      (b.enum && !a.enum)
    )
      say(`${at}: takes less`)
    if (!equal(a.default, b.default)) say(`${at}: its default was ${JSON.stringify(a.default)}`)
    if (b.pattern !== undefined && a.pattern !== b.pattern) say(`${at}: its pattern differs`)
    for (const [limit, sign] of Object.entries(limits)) {
      const [before, after] = [a[limit], b[limit]] as [number?, number?]
      if (after !== undefined && (before === undefined || (after - before) * sign > 0))
        say(`${at}: ${limit} is ${after}`)
    }
    for (const key of missing(b.required, a.required)) say(`${at}: needs ${key}`)
  } else {
    for (const key of missing(a.required, b.required)) say(`${at}: ${key} may be missing`)
  }
  for (const [key, property] of Object.entries(a.properties ?? {})) {
    const found = b.properties?.[key]
    if (!found) say(`${at}: ${key} is gone`)
    else compareSchemas(property, found, { ...comparison, at: at ? `${at}.${key}` : key })
  }
  if (a.items && b.items) compareSchemas(a.items, b.items, { ...comparison, at: `${at}[]` })
}
