/** What the service says of itself: the docs page, the OpenAPI document and the AsyncAPI document. */
import type { Elysia } from 'elysia'
import { operations } from '../operations/operations.ts'
import { asyncApiDocument } from './asyncapi.ts'
import { rootOf } from './behind-proxy.ts'
import { createDocs, docsPaths, type Prepared, prepare, respond } from './docs.ts'
import type { DocumentOptions } from './document.ts'

/** What is asked before the parameters of a path, of the operations that anybody may call. */
const openPlaces = operations.flatMap(({ rest }) =>
  rest?.open ? rest.place.slice('GET '.length).replace(/\{.*/, '') : [],
)
export const openPaths: ReadonlySet<string> = new Set([
  '/',
  '/docs/',
  '/openapi.json',
  '/asyncapi.json',
  ...docsPaths,
  ...openPlaces,
])
const openFolders = [...new Set(openPlaces.filter(place => place.endsWith('/')))]

/** Whether anybody may ask for it who passes the Host and Origin check, with a token required or not. */
export const isOpenPath = (path: string): boolean =>
  openPaths.has(path) || openFolders.some(folder => path.startsWith(folder))

const hidden = { detail: { hide: true } }

/** Adds GET of a JSON document, which is made once, when it is first asked for. */
function addDocument(app: Elysia, path: string, made: () => object | Promise<object>): void {
  let prepared: Promise<Prepared> | undefined
  const serve = async ({ request }: { request: Request }) => {
    prepared ??= Promise.resolve(made()).then(prepareJson)
    return respond(request, await prepared, "default-src 'none'")
  }
  app.get(path, serve, hidden)
}

const prepareJson = (document: object) => prepare(JSON.stringify(document), 'application/json')

/**
 * Adds GET `/openapi.json` and the docs page.
 *
 * @returns the OpenAPI document of all routes that `app` has when it is first asked for
 */
export function addDocsRoutes(app: Elysia, options: DocumentOptions): () => Promise<Record<string, unknown>> {
  const document = async () => {
    // Loaded at the first look: a service that nobody reads about starts without the generator.
    const { createDocument } = await import('./document.ts')
    return createDocument(app, options)
  }
  addDocument(app, '/openapi.json', document)
  const docs = createDocs()
  for (const path of docsPaths) app.get(path, ({ request }) => docs(request, path), hidden)
  return document
}

/** Adds GET `/`, both documents and the docs page. @returns as `addDocsRoutes` */
export function addServiceRoutes(
  app: Elysia,
  options: DocumentOptions,
): () => Promise<Record<string, unknown>> {
  const document = addDocsRoutes(app, options)
  addDocument(app, '/asyncapi.json', () => asyncApiDocument(options))
  const toDocs = ({ request }: { request: Request }) =>
    new Response(null, { status: 302, headers: { location: `${rootOf(request)}/docs` } })
  for (const path of ['/', '/docs/']) app.get(path, toDocs, hidden)
  return document
}
