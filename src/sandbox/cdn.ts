/** Tencent's media CDN as a fetch handler: `/c2c/upload` and `/c2c/download` (protocol notes 2.9, 2.10). */
import { openAsBlob } from 'node:fs'
import { UploadRefusedError } from './media.ts'
import type { World } from './world.ts'

/**
 * Creates the handler for requests below `/c2c/`. It checks no token and no iLink headers: the URL's
 * parameters grant access.
 */
export function createCdn(world: World): (request: Request, url: URL) => Promise<Response> {
  const { core, intercept } = world
  return async (request, url) => {
    const name =
      url.pathname === '/c2c/upload' ? 'upload' : url.pathname === '/c2c/download' ? 'download' : undefined
    if (!name) return errorResponse(404, 'not found')
    core.stats.requests[name] = (core.stats.requests[name] ?? 0) + 1
    const honest = () => (name === 'upload' ? upload(world, request, url) : download(world, request, url))
    const response = await intercept(
      { endpoint: name, bot: undefined, body: '', signal: request.signal },
      honest,
    )
    return response ?? new Response(null, { status: 499 })
  }
}

async function upload({ core, media }: World, request: Request, url: URL): Promise<Response> {
  const { upload_method } = core.switches
  const method = request.method.toLowerCase()
  if (upload_method === 'both' ? !['post', 'put'].includes(method) : method !== upload_method) {
    return errorResponse(404, 'not found')
  }
  const param = url.searchParams.get('encrypted_query_param')
  if (!param) return errorResponse(400, 'encrypted_query_param required')
  const piece = media.findByUpload(param, url.searchParams.get('filekey') ?? '')
  if (!piece) return errorResponse(404, 'upload param unknown')
  try {
    await media.receive(
      piece,
      countBytes(request.body ?? [], bytes => (core.stats.uploads.bytes += bytes)),
    )
  } catch (error) {
    if (!(error instanceof UploadRefusedError)) throw error
    core.stats.uploads.refused++
    return errorResponse(400, error.message)
  }
  core.stats.uploads.accepted++
  // Status exactly 200, and the download parameter of the piece. A client may post to the same upload URL
  // again.
  return new Response('', { headers: { 'x-encrypted-param': piece.param } })
}

async function download({ core, media }: World, request: Request, url: URL): Promise<Response> {
  if (request.method !== 'GET' && request.method !== 'HEAD') return errorResponse(405, 'method not allowed')
  const param = url.searchParams.get('encrypted_query_param')
  if (!param) return errorResponse(400, 'encrypted_query_param required')
  const piece = media.findByParam(param)
  if (!piece) return errorResponse(404, 'file not found')
  core.stats.downloads++
  // The body is a file, not a stream. Only then does Bun send Content-Length, and it sends the file without
  // copying it.
  return new Response(await openAsBlob(media.pathOf(piece)), {
    headers: { 'content-type': 'application/octet-stream', 'content-length': String(piece.cipher_size) },
  })
}

const errorResponse = (status: number, why: string) =>
  new Response(why, { status, headers: { 'content-type': 'text/plain', 'x-error-message': why } })

async function* countBytes(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  count: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    count(chunk.length)
    yield chunk
  }
}
