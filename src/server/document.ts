/**
 * Creates the OpenAPI document. @elysiajs/openapi generates it from the routes. Then one step adds what the
 * generator does not know (errors and examples of each route, shared schemas) and removes what validators
 * reject.
 */
import { toOpenAPISchema } from '@elysiajs/openapi/openapi'
import { type TObject, TypeGuard } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { type ErrorCode, errorKindOf, SvcError } from '../model/error.ts'
import * as keys from '../model/key.ts'
import { LoginStatus } from '../model/login.ts'
import * as media from '../model/media.ts'
import * as messages from '../model/message.ts'
import * as sessions from '../model/session.ts'
import * as webhooks from '../model/webhook.ts'
import { toJsonSchema } from '../operations/schema.ts'
import { Problem, problemOf, problemTypeOf } from './errors.ts'
import { notesKey, type RouteNotes } from './route.ts'

/**
 * Object schemas that have a name in the document: the name of their export. Smaller schemas come first,
 * since a larger one is compared after its parts were replaced by references.
 */
const sharedSchemas = Object.entries<unknown>({
  ...messages,
  ...sessions,
  ...media,
  ...webhooks,
  ...keys,
  LoginStatus,
  Problem,
})
  .filter((entry): entry is [string, TObject] => TypeGuard.IsObject(entry[1]))
  .map(([name, schema]) => [name, toJsonSchema(schema)] as const)
  .sort(([, a], [, b]) => JSON.stringify(a).length - JSON.stringify(b).length)

const description = `Nine tools, each called by a POST of one JSON object.

Start with \`sessions\`; without a connected one, \`login\`. Then \`recv\` waits for messages and \`send\` answers them.

**What WeChat allows a bot.** A user must write first. Then the bot may answer for about 24 hours, about 10 times per message of the user. Accepted by WeChat is not delivered. There are no groups, no voice bubbles, and one bot per account.

**Errors** are \`application/problem+json\`: decide by \`code\`, follow \`hint\`, and repeat only after \`retry_after\` seconds. Message ids are strings, since most exceed 2^53. Times are Unix milliseconds.`

type Json = Record<string, unknown>

/** Options of the OpenAPI and AsyncAPI documents. */
export interface DocumentOptions {
  version: string
  /** Whether calls of this service need the bearer token. */
  tokenRequired: boolean
  /** Title and descriptions; those of the nine tools by default. */
  about?: ApiInfo
}

/** Title, descriptions and tags of a document. */
interface ApiInfo {
  title: string
  summary: string
  description: string
  tags: readonly { name: string; description: string }[]
}

const aboutTools: ApiInfo = {
  title: 'svc',
  summary: 'WeChat bot accounts as tools',
  description,
  tags: [
    { name: 'tools', description: 'The nine tools: log accounts in, receive messages, answer them.' },
    { name: 'messages', description: 'What waits, who wrote, questions, events, exports.' },
    { name: 'invitations', description: 'Links by which people log in by themselves.' },
    { name: 'media', description: 'Bytes in and out, streamed.' },
    { name: 'webhooks', description: 'Events that leave by themselves.' },
    { name: 'topics', description: 'Addresses by which programs notify people.' },
    { name: 'keys', description: 'Keys of callers, and what each may do.' },
    { name: 'agents', description: 'Agents that talk with users, their turns and their questions.' },
    { name: 'service', description: 'About the service itself.' },
  ],
}

/** Creates the document for the routes of `app`, as plain JSON. */
export function createDocument(app: Elysia, options: DocumentOptions): Json {
  const generated = JSON.stringify(toOpenAPISchema(app))
  const { paths }: { paths: Record<string, Record<string, Operation>> } = JSON.parse(generated)
  const { about = aboutTools } = options
  const schemas: Record<string, unknown> = {}
  const known = new Map<string, string>()
  for (const [name, schema] of sharedSchemas) {
    const parts = referToShared(schema, known)
    schemas[name] = parts
    known.set(fingerprintOf(parts), name)
  }
  const used = new Set<ErrorCode>()
  const tidied: Json = {}
  for (const [path, methods] of Object.entries(paths)) {
    const operations: Json = {}
    for (const [method, operation] of Object.entries(methods))
      operations[method] = tidyOperation(operation, known, used)
    tidied[path] = operations
  }
  return {
    openapi: '3.1.1',
    info: {
      title: about.title,
      version: options.version,
      summary: about.summary,
      description: about.description,
      contact: { name: 'svc' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    // Relative to this document, so it is also right below a proxy's path.
    servers: [{ url: '.', description: 'This service' }],
    tags: about.tags,
    security: options.tokenRequired ? [{ bearer: [] }] : [{}, { bearer: [] }],
    paths: tidied,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A key, which svc key add makes, or the master token: the one given with --token, or the one in the file api_token of the data directory. Not needed on a loopback address while there are no keys, unless --token was given.',
        },
      },
      schemas: selectReferred(tidied, schemas),
      examples: Object.fromEntries([...used].map(code => [code, problemExample(code)])),
    },
  }
}

/** Returns the shared schemas that the paths refer to, directly or through another schema. */
function selectReferred(paths: Json, schemas: Json): Json {
  const found = new Set<string>()
  const collect = (text: string) => {
    for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (found.has(name)) continue
      found.add(name)
      collect(JSON.stringify(schemas[name] ?? {}))
    }
  }
  collect(JSON.stringify(paths))
  return Object.fromEntries(Object.entries(schemas).filter(([name]) => found.has(name)))
}

function problemExample(code: ErrorCode): Json {
  const { title } = errorKindOf(code)
  const sample =
    code === 'invalid_arguments'
      ? new SvcError(code, 'missing; expected a user id like <user>@<domain>', { field: 'to' })
      : new SvcError(code, title, code === 'rate_limited' ? { retryAfter: 12 } : {})
  return { summary: title, value: { ...problemOf(sample), type: problemTypeOf(code) } }
}

/** A request or a response: the part of an operation that has a body. */
interface Holder extends Json {
  content?: Record<string, Json>
}

/** An operation, as the generator creates it. */
interface Operation extends Json {
  parameters?: { schema: Json; description?: unknown }[]
  requestBody?: Holder
  responses?: Record<string, Holder>
  [notesKey]?: RouteNotes
}

/**
 * Completes an operation: adds errors and examples, and refers to shared schemas. Adds its error codes to
 * `used`.
 */
function tidyOperation(operation: Operation, known: Map<string, string>, used: Set<ErrorCode>): Json {
  const { [notesKey]: notes = { errors: [] }, ...rest } = operation
  const out: Operation = referToShared(rest, known)
  for (const parameter of out.parameters ?? []) {
    const { schema } = parameter
    // The generator leaves the description inside the schema, which viewers do not display.
    if (schema.description === undefined) continue
    parameter.description = schema.description
    delete schema.description
  }
  if (notes.requestBody !== undefined) out.requestBody = referToShared(notes.requestBody, known)
  const responses: Record<string, Holder> = { ...out.responses, ...notes.responses }
  const body = out.requestBody?.content?.[jsonType]
  if (body) Object.assign(body, examplesOf(notes, 'input'))
  const result = responses['200']?.content?.[jsonType]
  if (result) Object.assign(result, examplesOf(notes, 'output'))
  for (const code of notes.errors) used.add(code)
  const byStatus = Map.groupBy(notes.errors, code => errorKindOf(code).status)
  for (const status of [...byStatus.keys()].sort((a, b) => a - b))
    responses[status] = createProblemEntry(status, byStatus.get(status) ?? [])
  out.responses = responses
  if (notes.open) out.security = []
  return out
}

const jsonType = 'application/json'

function examplesOf(notes: RouteNotes, side: 'input' | 'output'): Json {
  const examples = Object.fromEntries(
    (notes.examples ?? [])
      .filter(example => example[side] !== undefined)
      .map((example, index) => [`example${index + 1}`, { summary: example.summary, value: example[side] }]),
  )
  return Object.keys(examples).length > 0 ? { examples } : {}
}

const headersByStatus: Readonly<Record<number, Json>> = {
  401: { 'WWW-Authenticate': { description: 'How to authenticate.', schema: { type: 'string' } } },
  429: { 'Retry-After': { description: 'Seconds, where known.', schema: { type: 'integer' } } },
}

function createProblemEntry(status: number, codes: readonly ErrorCode[]): Json {
  const headers = headersByStatus[status]
  return {
    description: codes.map(code => `\`${code}\`: ${errorKindOf(code).title}`).join('; '),
    ...(headers && { headers }),
    content: {
      'application/problem+json': {
        schema: { $ref: '#/components/schemas/Problem' },
        examples: Object.fromEntries(codes.map(code => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  }
}

/** Returns a copy in which each shared schema is replaced by a reference to it. */
function referToShared<T>(value: T, known: ReadonlyMap<string, string>): T
function referToShared(value: unknown, known: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map(entry => referToShared(entry, known))
  if (typeof value !== 'object' || value === null) return value
  const copy: Json = {}
  for (const [key, entry] of Object.entries(value)) {
    // True is the default of JSON Schema; `toElysiaSchema` adds it.
    if (key === 'additionalProperties' && entry === true) continue
    // Examples and defaults are values, not schemas.
    copy[key] =
      key === 'examples' || key === 'example' || key === 'default' ? entry : referToShared(entry, known)
  }
  const name = copy.type === 'object' ? known.get(fingerprintOf(copy)) : undefined
  if (name === undefined) return copy
  const $ref = `#/components/schemas/${name}`
  return typeof copy.description === 'string' ? { $ref, description: copy.description } : { $ref }
}

/** Returns a text that is equal for schemas that differ only in description and order of keys. */
function fingerprintOf(schema: Json): string {
  const { description: _, ...rest } = schema
  return JSON.stringify(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1)))
}
