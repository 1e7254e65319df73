/**
 * Creates the OpenAPI document. @elysiajs/openapi generates it from the routes. Then one step adds what the
 * generator does not know (errors and examples of each route, shared schemas) and removes what validators
 * reject.
 */
import { toOpenAPISchema } from '@elysiajs/openapi/openapi'
import { type TObject, TypeGuard } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { Health } from '../gateway/health.ts'
import * as agents from '../model/agent.ts'
import { AuditLine } from '../model/audit.ts'
import { Backup, BackupStatus } from '../model/backup.ts'
import { ConsumerInfo } from '../model/consumer.ts'
import { type ErrorCode, errorCodes, errorKindOf, SvcError } from '../model/error.ts'
import * as invitations from '../model/invitation.ts'
import * as keys from '../model/key.ts'
import { LoginStatus } from '../model/login.ts'
import * as media from '../model/media.ts'
import * as messages from '../model/message.ts'
import * as nodes from '../model/nodes.ts'
import { Forgotten } from '../model/person.ts'
import { UserQuestion } from '../model/question.ts'
import * as relays from '../model/relay.ts'
import * as sessions from '../model/session.ts'
import * as topics from '../model/topic.ts'
import * as webhooks from '../model/webhook.ts'
import { toJsonSchema } from '../operations/schema.ts'
import { ToolInfo } from '../operations/service.ts'
import { isObject } from '../platform/fields.ts'
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
  ...topics,
  ...agents,
  ...invitations,
  ...nodes,
  ...relays,
  AuditLine,
  Backup,
  BackupStatus,
  ConsumerInfo,
  Forgotten,
  LoginStatus,
  Health,
  Problem,
  ToolInfo,
  UserQuestion,
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
  const names = { known, schemas }
  const tidied: Json = {}
  for (const [path, methods] of Object.entries(paths)) {
    const operations: Json = {}
    for (const [method, operation] of Object.entries(methods))
      operations[method] = tidyOperation(operation, names)
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
      schemas: selectReferred({ tidied, failure }, schemas),
      responses: { Failure: failure },
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

/** Completes an operation: adds failures and examples, and refers to schemas by their names. */
function tidyOperation(operation: Operation, names: Names): Json {
  const { [notesKey]: notes = { errors: [] }, ...rest } = operation
  const { known } = names
  const out: Operation = referToShared(rest, known)
  for (const parameter of out.parameters ?? []) {
    const { schema } = parameter
    // The generator leaves the description inside the schema, which viewers do not display.
    if (schema.description === undefined) continue
    parameter.description = schema.description
    delete schema.description
  }
  if (notes.requestBody !== undefined) out.requestBody = referToShared(notes.requestBody, known)
  const body = out.requestBody?.content?.[jsonType]
  if (body) Object.assign(body, examplesOf(notes, 'input'))
  const responses: Record<string, Holder> = { ...out.responses, ...notes.responses }
  for (const { content } of Object.values(responses)) nameAnswer(content?.[jsonType], out.operationId, names)
  const result = responses['200']?.content?.[jsonType]
  if (result) Object.assign(result, examplesOf(notes, 'output'))
  out.responses = { ...responses, default: { $ref: '#/components/responses/Failure' } }
  const codes = notes.errors.map(code => `\`${code}\``)
  out.description = `${out.description}\n\nFails with ${codes.join(', ')}.`
  if (notes.open) out.security = []
  return out
}

/** Schemas that have a name, and the names by their fingerprints. */
interface Names {
  readonly known: Map<string, string>
  readonly schemas: Json
}

/** An answer without a name of its own gets that of its operation: generators name types by it. */
function nameAnswer(content: Json | undefined, operationId: unknown, { known, schemas }: Names): void {
  const { schema } = content ?? {}
  if (!content || !isObject(schema) || !isObject(schema.properties)) return
  const print = fingerprintOf(schema)
  const words = String(operationId).split('_')
  const name = known.get(print) ?? `${words.map(toCapital).join('')}Result`
  known.set(print, name)
  schemas[name] ??= schema
  content.schema = { $ref: `#/components/schemas/${name}` }
}

const toCapital = (word: string) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`

const jsonType = 'application/json'

function examplesOf(notes: RouteNotes, side: 'input' | 'output'): Json {
  const examples = Object.fromEntries(
    (notes.examples ?? [])
      .filter(example => example[side] !== undefined)
      .map((example, index) => [`example${index + 1}`, { summary: example.summary, value: example[side] }]),
  )
  return Object.keys(examples).length > 0 ? { examples } : {}
}

/** What every operation may answer in place of a result. Its codes are in the description of the operation. */
const failure: Json = {
  description: 'The call failed. Decide by `code`; a later version may have more codes.',
  headers: {
    'WWW-Authenticate': { description: 'How to authenticate, with 401.', schema: { type: 'string' } },
    'Retry-After': { description: 'Seconds, where known.', schema: { type: 'integer' } },
  },
  content: {
    'application/problem+json': {
      schema: { $ref: '#/components/schemas/Problem' },
      examples: Object.fromEntries(errorCodes.map(code => [code, problemExample(code)])),
    },
  },
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
