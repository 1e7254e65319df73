/**
 * The panel's files: the page, its scripts and styles, the texts. They are a fixed set, read into memory at
 * the first visit. Every other path of the panel returns the page, so that deep links work.
 */
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { SvcError } from '../../model/error.ts'
import type { PageCaller } from '../../model/key.ts'
import { returnIfAbsent } from '../../platform/files.ts'
import { bundledBrotliOf, listBundledFiles, readBundledFile } from '../../platform/packed.ts'
import { rootOf } from '../behind-proxy.ts'
import { createPagePolicy, fileResponse, prepareFile, type StaticFile } from '../docs.ts'

const pagePolicy = createPagePolicy(
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "manifest-src 'self'",
  "form-action 'self'",
)
/** CSP of the other files. It is short: for a script, the page's CSP applies. */
const filePolicy = "default-src 'none'"

const htmlType = 'text/html; charset=utf-8'
const contentTypes: Readonly<Record<string, string>> = {
  '.html': htmlType,
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
}

/** The panel's files. */
export type PanelFiles = ReturnType<typeof openPanelFiles>

/**
 * Opens the panel's files.
 *
 * @param folders that may contain the built panel; the first one that exists is used
 */
export function openPanelFiles(folders: readonly string[]) {
  let loaded: ReturnType<typeof loadPanel> | undefined
  const panel = () => {
    loaded ??= loadPanel(folders)
    // After an error, try again at the next request: the panel may be built by then.
    loaded.catch(() => {
      loaded = undefined
    })
    return loaded
  }
  return {
    /** Returns the error if there is no panel. */
    getError: async () => ((await findPanel(folders)) ? undefined : notBuiltError()),
    /** Returns the response for a file of the panel; undefined if there is no such file. */
    async serve(request: Request, path: string): Promise<Response | undefined> {
      const found = (await panel()).files.get(path)
      if (!found) return undefined
      const answer = addOriginHeaders(fileResponse(request, found, filePolicy))
      // The name contains a hash of the content.
      if (path.startsWith('/assets/'))
        answer.headers.set('cache-control', 'public, max-age=31536000, immutable')
      return answer
    },
    /**
     * Returns the page for a path, in the caller's language.
     *
     * @param ofNobody true for the page that asks for the token
     * @param me what the caller may do, if it is known
     */
    async getPage(request: Request, path: string, ofNobody: boolean, me?: PageCaller): Promise<Response> {
      const { html, page, languages } = await panel()
      const [, first = '', , user] = path.split('/')
      const place = first === 'conversations' && user ? 'chat' : first
      const language = chooseLanguage(request, languages)
      const name = ofNobody ? '' : `/${place}.html`
      const content = await page(html.has(name) ? name : '/index.html', language, rootOf(request), me)
      const answer = addOriginHeaders(fileResponse(request, content, pagePolicy))
      // The browser's back button would display the cached page without a request.
      if (ofNobody) answer.headers.set('cache-control', 'no-store')
      else if (me) answer.headers.set('cache-control', 'private, no-cache')
      answer.headers.append('vary', 'accept-language')
      return answer
    },
  }
}

/** Adds headers: pages of other origins cannot include our files or access our window. */
function addOriginHeaders(answer: Response): Response {
  answer.headers.set('cross-origin-resource-policy', 'same-origin')
  answer.headers.set('cross-origin-opener-policy', 'same-origin')
  return answer
}

async function loadPanel(folders: readonly string[]) {
  const place = await findPanel(folders)
  if (!place) throw notBuiltError()
  const files = new Map<string, StaticFile>()
  const html = new Map<string, string>()
  for (const name of place.names) {
    const type = contentTypes[extname(name)]
    if (type === undefined) continue
    const { bytes, ...forms } = await place.read(name)
    const path = `/${name.replaceAll('\\', '/')}`
    if (bytes && type === htmlType) html.set(path, new TextDecoder().decode(bytes))
    else if (bytes) files.set(path, await prepareFile(bytes, type, forms))
  }
  const languages = listLanguages(files)
  // The page that asks for the token has an empty path, which no request can name.
  html.set('', html.get('/index.html')!)
  const texts = new Map(languages.map(({ code, texts }) => [code, texts]))
  const made = new Map<string, Promise<StaticFile>>()
  const make = (path: string, language: string, root: string, me?: PageCaller) => {
    const start = {
      language,
      texts: texts.get(language) ?? {},
      languages: languages.map(({ code, name }) => ({ code, name })),
      signed_out: path === '',
      ...(root && { root }),
      ...(me && { me }),
    }
    return prepareFile(withStart(html.get(path)!, start, root), htmlType)
  }
  return {
    files,
    html,
    languages: languages.map(({ code }) => code),
    /** Returns the page for a path, in a language. @param root path of the panel on its host */
    page(path: string, language: string, root: string, me?: PageCaller): Promise<StaticFile> {
      const key = `${path} ${language} ${root} ${JSON.stringify(me)}`
      const page = made.get(key) ?? make(path, language, root, me)
      if (made.size >= maxPages) made.clear()
      made.set(key, page)
      return page
    },
  }
}

/** Maximum pages in memory. Callers can send any root, so their number must be limited. */
const maxPages = 100

/**
 * Returns the page with its texts and the rights of its caller inside, so that the browser can draw it without
 * another request.
 */
const withStart = (page: string, start: { language: string }, root: string): string => {
  const json = JSON.stringify(start).replaceAll('<', '\\u003c')
  const filled = page
    .replace('<html lang="en">', `<html lang="${start.language}">`)
    .replaceAll('="./', `="${root}/`)
  return filled.replace('id="start"></script>', () => `id="start">${json}</script>`)
}

/** Returns the available language that the caller's browser prefers; else English. */
function chooseLanguage(request: Request, languages: readonly string[]): string {
  const header = request.headers.get('accept-language') ?? ''
  const named = header.matchAll(/(?:^|,) *(([a-z]+)[\w-]*)(?: *; *q *= *([\d.]+))?/gi)
  const wanted = [...named].map(([, code = '', bare = '', weight = '1']) => ({ code, bare, weight: +weight }))
  const known = wanted
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .flatMap(({ code, bare }) => [code, bare.toLowerCase()])
  return known.find(code => languages.includes(code)) ?? 'en'
}

const notBuiltError = () =>
  new SvcError('internal', 'The panel was not built', {
    hint: 'Run ./scripts/start once, or (with Bun) bun scripts/panel.ts. The files of a release contain the panel: for Deno use svc.mjs.',
  })

/** A built panel: a folder, or the pack inside the program. */
interface BuiltPanel {
  names: readonly string[]
  read(name: string): Promise<{ bytes?: Uint8Array; br?: Uint8Array; gzip?: Uint8Array }>
}

function openPack(): BuiltPanel | undefined {
  const folder = 'panel/'
  const names = listBundledFiles(folder)
  if (names.length === 0) return undefined
  return {
    names,
    read: async name => ({
      bytes: await readBundledFile(`${folder}${name}`),
      br: bundledBrotliOf(`${folder}${name}`),
    }),
  }
}

const findPanel = async (folders: readonly string[]) => openPack() ?? (await findPanelFolder(folders))

async function findPanelFolder(folders: readonly string[]): Promise<BuiltPanel | undefined> {
  for (const folder of folders) {
    const names = await readdir(folder, { recursive: true }).catch(
      returnIfAbsent<string[]>([], ['ENOENT', 'ENOTDIR']),
    )
    if (!names.includes('index.html')) continue
    return {
      names,
      async read(name) {
        const [bytes, br, gzip] = await Promise.all(
          ['', '.br', '.gz'].map(form => readFile(join(folder, `${name}${form}`)).catch(() => undefined)),
        )
        return { bytes, br, gzip }
      },
    }
  }
  return undefined
}

/** Returns the available languages, each with its own name and its texts. */
function listLanguages(files: ReadonlyMap<string, StaticFile>) {
  const languages = [...files].flatMap(([path, file]) => {
    const code = /^\/locales\/([\w-]+)\.json$/.exec(path)?.[1]
    if (code === undefined) return []
    const texts = JSON.parse(new TextDecoder().decode(file.encodings.get('identity'))) as Record<
      string,
      string
    >
    return [{ code, name: texts['language.name'] ?? code, texts }]
  })
  return languages.sort((a, b) => (a.code < b.code ? -1 : 1))
}
