/**
 * `bun scripts/bundle.ts [--outfile=dist/svc.mjs]`: the whole program as one file for Deno, which runs it where nothing
 * else is installed: `deno run -A svc.mjs`. Panel, languages, docs page and the simulated phone are inside.
 */
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import process from 'node:process'
import { parseArgs, promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import { buildPanel } from './panel.ts'

const root = resolve(import.meta.dirname, '..')

export interface BundleOptions {
  outfile: string
  /** The built panel. */
  panel: string
}

/** Makes the file, whole or not at all. */
export async function bundle({ outfile, panel }: BundleOptions): Promise<void> {
  // A build that fails must not leave yesterday's file in place.
  await rm(outfile, { force: true })
  await mkdir(dirname(outfile), { recursive: true })
  const files = await packed(panel)
  const workshop = await mkdtemp(join(dirname(outfile), '.bundle-'))
  try {
    const result = await Bun.build({
      entrypoints: [join(root, 'src/main.ts')],
      outdir: workshop,
      naming: basename(outfile),
      target: 'node',
      format: 'esm',
      minify: true,
      // It may be run from an address of the web, and then lies in no folder; nor does it look into one.
      define: { 'import.meta.dirname': '"/dev/null"' },
      plugins: [packing(files), asModules],
    })
    for (const message of result.logs) console.error(message)
    const [output, ...more] = result.outputs
    if (!result.success || !output || more.length > 0)
      throw new Error('src/main.ts does not become one file.')
    const built = join(workshop, 'with its first line')
    await writeFile(built, `${firstLine}\n${withoutPlace(withoutFirstLines(await output.text()))}`, {
      mode: 0o755,
    })
    await rename(built, outfile)
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

/** jsonc-parser names its modules in a field that is passed over for Node; its other form asks for files of its own. */
const asModules: Bun.BunPlugin = {
  name: 'modules',
  setup(build) {
    build.onResolve({ filter: /^jsonc-parser$/ }, () => ({
      path: join(root, 'node_modules/jsonc-parser/lib/esm/main.js'),
    }))
  },
}

/**
 * Packages that are no modules ask for parts of the runtime. Bun finds them by the file that asks, of which there is none
 * when the program is run from an address of the web.
 */
function withoutPlace(text: string): string {
  const name = /\bimport\{createRequire as ([\w$]+)\}from"node:module";/.exec(text)?.[1]
  const call = `${name}(import.meta.url)`
  if (!name || text.split(call).length !== 2)
    throw new Error('the bundle asks for parts of the runtime in another way')
  return text.replace(call, () => '(name=>process.getBuiltinModule(name))')
}

/** So that it can be started by its name alone. */
const firstLine = '#!/usr/bin/env -S deno run --allow-all'

/** The sources are started by Bun, and what Bun has translated is marked for it. */
const withoutFirstLines = (text: string) => text.replace(/^#!.*\n/, '').replace(/^\/\/ @bun\b.*\n/, '')

/** In place of the module that has no files, one that has these; what they stand for is not taken in a second time. */
const packing = (files: Record<string, string>): Bun.BunPlugin => ({
  name: 'packed files',
  setup(build) {
    build.onLoad({ filter: /[\\/]platform[\\/]packed-files\.ts$/ }, () => ({
      contents: `export const packedFiles = ${JSON.stringify(files)}`,
      loader: 'js',
    }))
    build.onLoad({ filter: /\.br$/ }, () => ({ contents: '', loader: 'js' }))
  },
})

/** The names by which the program asks for them. */
async function packed(panel: string): Promise<Record<string, string>> {
  const names = (await readdir(panel, { recursive: true, withFileTypes: true }))
    .filter(entry => entry.isFile() && !/\.(br|gz)$/.test(entry.name))
    .map(entry =>
      join(entry.parentPath, entry.name)
        .slice(panel.length + 1)
        .replaceAll('\\', '/'),
    )
    .sort()
  // The best takes 5 s more, for 2 % of the file.
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }
  const texts = names.map(async name => {
    const content = await promisify(brotliCompress)(await readFile(join(panel, name)), quality)
    return [`panel/${name}`, content.toString('base64')] as const
  })
  const scalar = await readFile(join(root, 'src/server/docs/scalar.js.br'))
  return Object.fromEntries([...(await Promise.all(texts)), ['docs/scalar.js', scalar.toString('base64')]])
}

if (import.meta.main) {
  const { values } = parseArgs({ args: process.argv.slice(2), options: { outfile: { type: 'string' } } })
  const outfile = resolve(values.outfile ?? join(root, 'dist/svc.mjs'))
  const workshop = await mkdtemp(join(tmpdir(), 'svc-panel-'))
  try {
    const panel = join(workshop, 'panel')
    await buildPanel(panel)
    await bundle({ outfile, panel })
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
  console.log(`${outfile} (${(Bun.file(outfile).size / 1e6).toFixed(1)} MB)`)
}
