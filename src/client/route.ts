/** A route of the REST API as data, and how an input becomes a request. */
import { badArgument } from '../model/error.ts'
import type { Callable } from './methods.ts'

export interface Route extends Callable {
  /** Method and path; `{key}` is a key of the input. */
  readonly route: string
  /** Key of the input → the header that contains it. */
  readonly headers?: Readonly<Record<string, string>>
  /** A second status whose body is an answer. */
  readonly otherStatus?: number
  /** The body is a file, so all other keys are in the query. */
  readonly hasFileBody?: true
  /** It changes nothing, so it can be repeated. */
  readonly isRead?: true
}

export interface Routes {
  /** The groups of `Svc`, with the routes of their methods. */
  readonly groups: Readonly<Record<string, Readonly<Record<string, Route>>>>
  readonly calls: Readonly<Record<string, Route>>
}

export interface HttpRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/**
 * Places the keys of an input where the route has them: path, headers, query or JSON body.
 *
 * @throws SvcError `invalid_arguments` for a value that cannot be a part of a path
 */
export function toRequest(route: Route, input: Readonly<Record<string, unknown>>): HttpRequest {
  const [method = '', template = ''] = route.route.split(' ')
  const rest = { ...input }
  const take = (key: string) => {
    const value = rest[key]
    delete rest[key]
    return value
  }
  const headers: Record<string, string> = {}
  for (const [key, header] of Object.entries(route.headers ?? {})) {
    const value = take(key)
    if (value !== undefined) headers[header] = String(value)
  }
  const path = template.replace(/\{(\w+)\}/g, (_all, key: string) => {
    const value = String(take(key) ?? '')
    // Others would change the path.
    if (/^\.{0,2}$/.test(value)) throw badArgument(key, 'expected a name or an id')
    return encodeURIComponent(value)
  })
  if (/^P/.test(method) && !route.hasFileBody)
    return {
      method,
      path,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(rest),
    }
  const pairs = Object.entries(rest).filter(([, value]) => value !== undefined)
  const query = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString()
  return { method, path: query ? `${path}?${query}` : path, headers }
}
