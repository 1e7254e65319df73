/**
 * The panel's own files: the page, its scripts and styles, the texts. A fixed set, read into memory at the first visit;
 * a path names an entry of that set or nothing. Every address of the panel that is no file is the page: deep links.
 */
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { SvcError } from '../../model/error.ts'
import { absentAs } from '../../platform/files.ts'
import { packedBrotli, packedNames, readPacked } from '../../platform/packed.ts'
import { rootOf } from '../behind-proxy.ts'
import { type Prepared, prepare, respond } from '../docs.ts'

/** Nothing inline runs, and nothing is loaded from, sent to or framed by anybody else. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')
/** The page's own is what holds for a script; each of many files would carry its 200 bytes. */
const filePolicy = "default-src 'none'"

const htmlType = 'text/html; charset=utf-8'
const types: Readonly<Record<string, string>> = {
  '.html': htmlType,
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
}

export type PanelFiles = ReturnType<typeof openPanelFiles>

/** @param folders where the built panel may lie; the first that is there is it */
export function openPanelFiles(folders: readonly string[]) {
  let loaded: ReturnType<typeof load> | undefined
  const panel = () => {
    loaded ??= load(folders)
    // One that was not built yet may be there the next time.
    loaded.catch(() => {
      loaded = undefined
    })
    return loaded
  }
  return {
    /** Why there is no panel to serve, if there is none. */
    missing: async () => ((await findPlace(folders)) ? undefined : notBuilt()),
    /** The answer for a path of the panel; undefined where there is no such file. */
    async serve(request: Request, path: string): Promise<Response | undefined> {
      const found = (await panel()).files.get(path)
      if (!found) return undefined
      const answer = own(respond(request, found, filePolicy))
      // The hash in the name stands for the content.
      if (path.startsWith('/assets/'))
        answer.headers.set('cache-control', 'public, max-age=31536000, immutable')
      return answer
    },
    /** The page, as it is for a path and in the languages of the caller; of nobody, as it asks for the token. */
    async page(request: Request, path: string, ofNobody: boolean): Promise<Response> {
      const { html, page, languages } = await panel()
      const [, first = '', , user] = path.split('/')
      const place = first === 'conversations' && user ? 'chat' : first
      const language = wished(request, languages)
      const name = ofNobody ? '' : `/${place}.html`
      const shown = await page(html.has(name) ? name : '/index.html', language, rootOf(request))
      const answer = own(respond(request, shown, policy))
      // On the way back a browser shows what it kept without asking.
      if (ofNobody) answer.headers.set('cache-control', 'no-store')
      answer.headers.append('vary', 'accept-language')
      return answer
    },
  }
}

/** Pages of other origins neither include our files nor keep a hold on our window. */
function own(answer: Response): Response {
  answer.headers.set('cross-origin-resource-policy', 'same-origin')
  answer.headers.set('cross-origin-opener-policy', 'same-origin')
  return answer
}

async function load(folders: readonly string[]) {
  const place = await findPlace(folders)
  if (!place) throw notBuilt()
  const files = new Map<string, Prepared>()
  const html = new Map<string, string>()
  for (const name of place.names) {
    const type = types[extname(name)]
    if (type === undefined) continue
    const { bytes, ...forms } = await place.read(name)
    const path = `/${name.replaceAll('\\', '/')}`
    if (bytes && type === htmlType) html.set(path, new TextDecoder().decode(bytes))
    else if (bytes) files.set(path, await prepare(bytes, type, forms))
  }
  const languages = languagesIn(files)
  // That of nobody has no path: none leads to it.
  html.set('', html.get('/index.html')!)
  const made = new Map<string, Promise<Prepared>>()
  const make = (path: string, language: string, root: string) => {
    const start = {
      language,
      texts: languages.find(({ code }) => code === language)!.texts,
      languages: languages.map(({ code, name }) => ({ code, name })),
      signed_out: path === '',
      ...(root && { root }),
    }
    return prepare(withStart(html.get(path)!, start, root), htmlType)
  }
  return {
    files,
    html,
    languages: languages.map(({ code }) => code),
    /** The page of a path; one that lies below `root` of its host. */
    page(path: string, language: string, root: string): Promise<Prepared> {
      const key = `${path} ${language} ${root}`
      const page = made.get(key) ?? make(path, language, root)
      if (made.size >= mostPages) made.clear()
      made.set(key, page)
      return page
    },
  }
}

/** Roots are what callers say they are: no more pages than these are kept. */
const mostPages = 100

/** The page with the texts in it: the browser has nothing to ask for before it can draw. */
const withStart = (page: string, start: { language: string }, root: string): string => {
  const json = JSON.stringify(start).replaceAll('<', '\\u003c')
  const filled = page
    .replace('<html lang="en">', `<html lang="${start.language}">`)
    .replaceAll('="./', `="${root}/`)
  return filled.replace('id="start"></script>', () => `id="start">${json}</script>`)
}

/** The language that the caller's browser names first of those there are; else English. */
function wished(request: Request, languages: readonly string[]): string {
  const named = (request.headers.get('accept-language') ?? '').matchAll(/(?:^|,) *(([a-z]+)[\w-]*)/gi)
  const known = [...named].flatMap(([, code = '', bare = '']) => [code, bare.toLowerCase()])
  return known.find(one => languages.includes(one)) ?? 'en'
}

const notBuilt = () =>
  new SvcError('internal', 'The panel was not built', {
    hint: 'Run ./scripts/start once, or (with Bun) bun scripts/panel.ts. The files of a release have the panel inside: for Deno that is svc.mjs.',
  })

/** Where the built panel is. */
interface Place {
  names: readonly string[]
  read(name: string): Promise<{ bytes?: Uint8Array; br?: Uint8Array; gzip?: Uint8Array }>
}

function placeOfPack(): Place | undefined {
  const folder = 'panel/'
  const names = packedNames(folder)
  if (names.length === 0) return undefined
  return {
    names,
    read: async name => ({
      bytes: await readPacked(`${folder}${name}`),
      br: packedBrotli(`${folder}${name}`),
    }),
  }
}

const findPlace = async (folders: readonly string[]) => placeOfPack() ?? (await firstOf(folders))

async function firstOf(folders: readonly string[]): Promise<Place | undefined> {
  for (const folder of folders) {
    const names = await readdir(folder, { recursive: true }).catch(
      absentAs<string[]>([], ['ENOENT', 'ENOTDIR']),
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

/** The languages there are, each by its own name. */
function languagesIn(files: ReadonlyMap<string, Prepared>) {
  const languages = [...files].flatMap(([path, file]) => {
    const code = /^\/locales\/([\w-]+)\.json$/.exec(path)?.[1]
    if (code === undefined) return []
    const texts = JSON.parse(new TextDecoder().decode(file.forms.get('identity'))) as Record<string, string>
    return [{ code, name: texts['language.name'] ?? code, texts }]
  })
  return languages.sort((a, b) => (a.code < b.code ? -1 : 1))
}
