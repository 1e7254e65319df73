/**
 * Routes that describe the service: the documentation page, the OpenAPI document and the AsyncAPI document.
 */
import type { Elysia } from 'elysia'
import { operations } from '../operations/operations.ts'
import { createAsyncApiDocument } from './asyncapi.ts'
import { rootOf } from './behind-proxy.ts'
import { createDocsHandler, docsPaths, fileResponse, prepareFile, type StaticFile } from './docs.ts'
import type { DocumentOptions } from './document.ts'
import { invitationPaths } from './invite.ts'

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
  ...invitationPaths,
  ...openPathPrefixes,
])
const openFolders = [...new Set(openPathPrefixes.filter(place => place.endsWith('/')))]

/** Whether a path needs no token, only the Host and Origin check. */
export const isOpenPath = (path: string): boolean =>
  pathsWithoutToken.has(path) || openFolders.some(folder => path.startsWith(folder))

const hiddenRoute = { detail: { hide: true } }

/** What the documents say, and what it depends on. */
export interface DocsOptions extends Omit<DocumentOptions, 'tokenRequired'> {
  /** Whether calls need a token now: the first key closes the service. */
  needsToken(): boolean | Promise<boolean>
}

type Create = (options: DocumentOptions) => object | Promise<object>

/** Adds GET of a JSON document. Each of its two forms is created once, at the first request. */
function addDocument(app: Elysia, path: string, options: DocsOptions, create: Create): void {
  const prepared = new Map<boolean, Promise<StaticFile>>()
  const serve = async ({ request }: { request: Request }) => {
    // While keys cannot be read, nobody without the token gets in.
    const tokenRequired = await (async () => options.needsToken())().catch(() => true)
    const file = prepared.get(tokenRequired) ?? prepareJson(create({ ...options, tokenRequired }))
    prepared.set(tokenRequired, file)
    return fileResponse(request, await file, "default-src 'none'")
  }
  app.get(path, serve, hiddenRoute)
}

const prepareJson = async (document: object) =>
  prepareFile(JSON.stringify(await document), 'application/json')

/**
 * Adds GET `/openapi.json` and the documentation page.
 *
 * @returns a function that creates the OpenAPI document of all routes that `app` has then
 */
export function addDocsRoutes(app: Elysia, options: DocsOptions): () => Promise<Record<string, unknown>> {
  const create = async (about: DocumentOptions) => {
    // Loaded at the first request, so that the service starts without the generator.
    const { createDocument } = await import('./document.ts')
    return createDocument(app, about)
  }
  addDocument(app, '/openapi.json', options, create)
  const docs = createDocsHandler()
  for (const path of docsPaths) app.get(path, ({ request }) => docs(request, path), hiddenRoute)
  return async () => create({ ...options, tokenRequired: await options.needsToken() })
}

/** Adds GET `/`, both documents and the documentation page. @returns like `addDocsRoutes` */
export function addServiceRoutes(app: Elysia, options: DocsOptions): () => Promise<Record<string, unknown>> {
  const document = addDocsRoutes(app, options)
  addDocument(app, '/asyncapi.json', options, createAsyncApiDocument)
  const toDocs = ({ request }: { request: Request }) =>
    new Response(null, { status: 302, headers: { location: `${rootOf(request)}/docs` } })
  for (const path of ['/', '/docs/']) app.get(path, toDocs, hiddenRoute)
  return document
}
