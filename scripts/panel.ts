/**
 * Builds the admin panel: `bun scripts/panel.ts`, or `buildPanel` for the binary. Names carry a hash of what is in them;
 * beside each file lie its compressed forms, so that serving it costs nothing.
 */
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const root = resolve(import.meta.dirname, '..')

/** Where the service looks for the panel when it runs from the sources. */
export const panelFolder = join(root, 'dist/panel')

/** Builds the panel into `folder`, whole or not at all. */
export async function buildPanel(folder = panelFolder): Promise<void> {
  await mkdir(dirname(folder), { recursive: true })
  const workshop = await mkdtemp(join(dirname(folder), '.panel-'))
  try {
    const result = await Bun.build({
      entrypoints: ['index.html', 'language-data.ts', 'unloaded.ts'].map(name => join(root, 'admin', name)),
      outdir: workshop,
      minify: true,
      // Chromium compiles the functions while a script comes in, beside the main thread, and not at their first calls on it.
      banner: '//# allFunctionsCalledOnLoad',
      // Pages that nobody opens are not loaded.
      splitting: true,
      jsx: { runtime: 'automatic', importSource: 'preact', development: false },
      define: { 'process.env.NODE_ENV': '"production"' },
      naming: { chunk: 'assets/[name]-[hash].[ext]', asset: 'assets/[name]-[hash].[ext]' },
    })
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

/** Two may build at a time, and somebody may read meanwhile: it is away for no longer than a rename takes. */
async function replace(folder: string, built: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    const before = await mkdtemp(join(dirname(folder), '.panel-'))
    try {
      await rename(folder, join(before, 'panel')).catch(error => {
        if (error.code !== 'ENOENT') throw error
      })
      return await rename(built, folder)
    } catch (error) {
      // The other one came in between.
      if (tries === 10 || !/^(ENOTEMPTY|EEXIST|EPERM)$/.test((error as NodeJS.ErrnoException).code ?? ''))
        throw error
    } finally {
      await rm(before, { recursive: true, force: true })
    }
  }
}

/** What the page of a place needs besides what each needs, by the name of the page. */
const places = {
  sessions: ['sessions', 'layer-views'],
  conversations: ['conversations'],
  chat: ['conversations', 'chat'],
  settings: ['settings'],
}

/** Beside the page stands one for each place, which names that place's scripts: they come together, not one after another. */
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
