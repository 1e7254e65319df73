/** Operations over HTTP: where each is found, and how its input is put together. */
import { type TObject, Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { invalid } from '../model/error.ts'
import { closed } from '../model/shapes.ts'
import { invoke } from '../operations/gate.ts'
import type { Operation } from '../operations/operation.ts'
import { spelled } from '../operations/parse.ts'
import { isObject } from '../platform/fields.ts'
import { queryOf } from './paths.ts'
import { addJson, bodyOf, type RouteContext } from './route.ts'

/** Adds the routes of operations that have one, below `prefix`. */
export function addOperations(
  app: Elysia,
  context: RouteContext,
  operations: readonly Operation[],
  prefix = '',
): void {
  for (const operation of operations) addOperation(app, context, operation, prefix)
}

/** The input of an operation as HTTP carries it: some keys in the path, the others in the query or the body. */
function partsOf({ input, rest }: Operation): {
  method: string
  path: string
  inPath: readonly string[]
  shape: { params?: TObject; query?: TObject; body?: TObject }
} {
  const [method = '', template = ''] = rest?.place.split(' ') ?? []
  const inPath = [...template.matchAll(/\{(\w+)\}/g)].flatMap(([, key]) => key ?? [])
  const others = Object.keys(input.properties).filter(key => !inPath.includes(key))
  const params = inPath.length > 0 ? { params: closed(Type.Pick(input, inPath).properties) } : {}
  const among = others.length > 0 ? closed(Type.Pick(input, others).properties) : undefined
  const hasBody = method === 'POST' || method === 'PUT'
  return {
    method,
    path: template.replace(/\{(\w+)\}/g, ':$1'),
    inPath,
    shape: { ...params, ...(among && { [hasBody ? 'body' : 'query']: among }) },
  }
}

function addOperation(app: Elysia, context: RouteContext, operation: Operation, prefix: string): void {
  const { rest, name, title, description, output, errors, examples } = operation
  if (!rest) return
  const { method, path, inPath, shape } = partsOf(operation)
  const { params, query, body } = shape
  const inputOf = async (request: Request, given: Record<string, string>): Promise<unknown> => {
    const sent = query ? spelled(query, queryOf(request)) : body ? await bodyOf(request) : {}
    if (!isObject(sent)) return sent
    const twice = inPath.filter(key => Object.hasOwn(sent, key))
    if (twice.length > 0) throw invalid(twice.map(field => ({ field, problem: 'stands in the path' })))
    return { ...sent, ...(params && spelled(params, given)) }
  }
  const shown = examples.map(({ summary, input = {}, output }) => {
    const sent = Object.entries(input).filter(([key]) => !inPath.includes(key))
    return { summary, output, ...(body && sent.length > 0 && { input: Object.fromEntries(sent) }) }
  })
  addJson(
    app,
    context,
    [method, prefix + path],
    {
      operationId: name,
      tag: rest.tag,
      summary: title,
      description,
      ...shape,
      answer: output,
      errors,
      examples: shown,
    },
    async (call, given) => {
      const input = await inputOf(call.request, given)
      return { value: await invoke(operation, context.gateway, input, call, context.log) }
    },
  )
}
