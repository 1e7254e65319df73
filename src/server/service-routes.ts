/**
 * Routes that describe the service: the documentation page, the OpenAPI document and the AsyncAPI document.
 */
import type { Elysia } from 'elysia'
import { operations } from '../operations/operations.ts'
import { createAsyncApiDocument } from './asyncapi.ts'
import { rootOf } from './behind-proxy.ts'
import { createDocsHandler, docsPaths, fileResponse, prepareFile, type StaticFile } from './docs.ts'
import type { DocumentOptions } from './document.ts'

/** Paths of the operations that need no token, up to the first path parameter. */
const openPathPrefixes = operations.flatMap(({ rest }) =>
  rest?.isPublic ? rest.route.slice('GET '.length).replace(/\{.*/, '') : [],
)
/** Paths that need no token. */
export const pathsWithoutToken: ReadonlySet<string> = new Set([
  '/',
  '/docs/',
  '/openapi.json',
  '/asyncapi.json',
  ...docsPaths,
  ...openPathPrefixes,
])
const openFolders = [...new Set(openPathPrefixes.filter(place => place.endsWith('/')))]

/** Whether a path needs no token, only the Host and Origin check. */
export const isOpenPath = (path: string): boolean =>
  pathsWithoutToken.has(path) || openFolders.some(folder => path.startsWith(folder))

const hiddenRoute = { detail: { hide: true } }

/** Adds GET of a JSON document. It is created once, at the first request. */
function addDocument(app: Elysia, path: string, create: () => object | Promise<object>): void {
  let prepared: Promise<StaticFile> | undefined
  const serve = async ({ request }: { request: Request }) => {
    prepared ??= Promise.resolve(create()).then(prepareJson)
    return fileResponse(request, await prepared, "default-src 'none'")
  }
  app.get(path, serve, hiddenRoute)
}

const prepareJson = (document: object) => prepareFile(JSON.stringify(document), 'application/json')

/**
 * Adds GET `/openapi.json` and the documentation page.
 *
 * @returns a function that creates the OpenAPI document of all routes that `app` has then
 */
export function addDocsRoutes(app: Elysia, options: DocumentOptions): () => Promise<Record<string, unknown>> {
  const document = async () => {
    // Loaded at the first request, so that the service starts without the generator.
    const { createDocument } = await import('./document.ts')
    return createDocument(app, options)
  }
  addDocument(app, '/openapi.json', document)
  const docs = createDocsHandler()
  for (const path of docsPaths) app.get(path, ({ request }) => docs(request, path), hiddenRoute)
  return document
}

/** Adds GET `/`, both documents and the documentation page. @returns like `addDocsRoutes` */
export function addServiceRoutes(
  app: Elysia,
  options: DocumentOptions,
): () => Promise<Record<string, unknown>> {
  const document = addDocsRoutes(app, options)
  addDocument(app, '/asyncapi.json', () => createAsyncApiDocument(options))
  const toDocs = ({ request }: { request: Request }) =>
    new Response(null, { status: 302, headers: { location: `${rootOf(request)}/docs` } })
  for (const path of ['/', '/docs/']) app.get(path, toDocs, hiddenRoute)
  return document
}
