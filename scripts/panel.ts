/**
 * Builds the admin panel: `bun scripts/panel.ts`, or `buildPanel` for the binary. File names carry a hash of
 * the content. Compressed forms are written beside each file, so that serving them costs nothing.
 */
import { randomUUID } from 'node:crypto'
import { cp, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { writeExportStyle } from './export-style.ts'

const root = resolve(import.meta.dirname, '..')

/** The folder in which a service that runs from the sources looks for the panel. */
export const panelFolder = join(root, 'dist/panel')

/**
 * Makes a folder to build in, which then gets its final name. Other users may read it, if the umask allows that: a clone
 * may be used by several, and by a service. `mkdtemp` makes folders for one user alone.
 */
export async function makeWorkshop(prefix: string): Promise<string> {
  const folder = `${prefix}${randomUUID()}`
  await mkdir(folder)
  return folder
}

/** How the panel is built. The bill of materials is made from this, too. */
export const panelBuild: Bun.BuildConfig = {
  entrypoints: ['index.html', 'language-data.ts', 'unloaded.ts'].map(name => join(root, 'admin', name)),
  minify: true,
  // Makes Chromium compile the functions while a script loads, beside the main thread, and not at their
  // first calls on it.
  banner: '//# allFunctionsCalledOnLoad',
  // Pages that nobody opens are not loaded.
  splitting: true,
  jsx: { runtime: 'automatic', importSource: 'preact', development: false },
  define: { 'process.env.NODE_ENV': '"production"' },
  naming: { chunk: 'assets/[name]-[hash].[ext]', asset: 'assets/[name]-[hash].[ext]' },
}

/** Builds the panel into `folder`. A failure changes nothing. */
export async function buildPanel(folder = panelFolder): Promise<void> {
  await writeExportStyle()
  await mkdir(dirname(folder), { recursive: true })
  const workshop = await makeWorkshop(join(dirname(folder), '.panel-'))
  try {
    const result = await Bun.build({ ...panelBuild, outdir: workshop })
    for (const message of result.logs) console.error(message)
    await cp(join(root, 'admin/icon.svg'), join(workshop, 'icon.svg'))
    await cp(join(root, 'locales'), join(workshop, 'locales'), { recursive: true })
    await addPages(workshop)
    await compress(workshop)
    await replace(folder, workshop)
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

/**
 * Replaces the folder. Two builds may run at once, and a service may read it: it is absent only as long as a
 * rename takes.
 */
async function replace(folder: string, built: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    const before = await makeWorkshop(join(dirname(folder), '.panel-'))
    try {
      await rename(folder, join(before, 'panel')).catch(error => {
        if (error.code !== 'ENOENT') throw error
      })
      return await rename(built, folder)
    } catch (error) {
      // Another build came in between.
      if (tries === 10 || !/^(ENOTEMPTY|EEXIST|EPERM)$/.test((error as NodeJS.ErrnoException).code ?? ''))
        throw error
    } finally {
      await rm(before, { recursive: true, force: true })
    }
  }
}

/** The modules that each page needs besides the common ones, by the page's name. */
const places = {
  sessions: ['sessions', 'layer-views'],
  conversations: ['conversations'],
  chat: ['conversations', 'chat'],
  settings: ['settings'],
}

/**
 * Writes one HTML page per place, which preloads that place's scripts: they load together, not one after
 * another.
 */
async function addPages(folder: string): Promise<void> {
  const built = await readFile(join(folder, 'index.html'), 'utf8')
  const page = built.replace('</body>', '<script src="./unloaded.js" async></script></body>')
  await writeFile(join(folder, 'index.html'), page)
  const names = await readdir(join(folder, 'assets'))
  const scripts = new Bun.Transpiler({ loader: 'js' })
  const withImports = async (name: string): Promise<string[]> => {
    const text = await readFile(join(folder, 'assets', name), 'utf8')
    const imports = scripts.scanImports(text).filter(({ kind }) => kind === 'import-statement')
    return [name, ...(await Promise.all(imports.map(({ path }) => withImports(basename(path))))).flat()]
  }
  for (const [place, modules] of Object.entries(places)) {
    const wanted = modules.map(module => names.find(name => name.replace(/-\w+\.js$/, '') === module)!)
    const needed = new Set((await Promise.all(wanted.map(withImports))).flat())
    const links = [...needed]
      .filter(name => !page.includes(name))
      .map(name => `<link rel="modulepreload" crossorigin href="./assets/${name}">`)
    await writeFile(join(folder, `${place}.html`), page.replace('</head>', `${links.join('')}</head>`))
  }
}

async function compress(folder: string): Promise<void> {
  const names = await readdir(folder, { recursive: true })
  await Promise.all(
    names.map(async name => {
      const path = join(folder, name)
      if (!(await stat(path)).isFile()) return
      const content = await readFile(path)
      const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } }
      await writeFile(`${path}.br`, await promisify(brotliCompress)(content, quality))
      await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }))
    }),
  )
}

if (import.meta.main) {
  await buildPanel()
  let total = 0
  for (const name of (await readdir(panelFolder, { recursive: true })).sort()) {
    if (!name.endsWith('.br')) continue
    const { size } = await stat(join(panelFolder, name))
    total += size
    console.log(`${(size / 1000).toFixed(1).padStart(7)} kB  ${basename(name, '.br')}`)
  }
  console.log(`${(total / 1000).toFixed(1).padStart(7)} kB  in all, compressed with brotli`)
}
