/**
 * `bun scripts/bundle.ts [--outfile=dist/svc.mjs]`: makes the whole program one file for Deno, which runs it
 * without anything else installed: `deno run -A svc.mjs`. Panel, languages, docs page and the simulated phone
 * are inside.
 */
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import process from 'node:process'
import { parseArgs, promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import { commitDefine } from './build/commit.ts'
import { buildWith, type Setup, withoutColors } from './build/plugins.ts'
import { buildPanel } from './panel.ts'

const root = resolve(import.meta.dirname, '..')

export interface BundleOptions {
  outfile: string
  /** The folder of the built panel. */
  panel: string
}

/** Makes the file. A failure leaves no file. */
export async function bundle({ outfile, panel }: BundleOptions): Promise<void> {
  // A failed build must not leave an older file in place.
  await rm(outfile, { force: true })
  await mkdir(dirname(outfile), { recursive: true })
  const files = await packFiles(panel)
  const workshop = await mkdtemp(join(dirname(outfile), '.bundle-'))
  try {
    const result = await buildWith(
      { packing: packing(files), asModules, withDecoder, withoutColors },
      {
        entrypoints: [join(root, 'src/main.ts')],
        outdir: workshop,
        naming: basename(outfile),
        target: 'node',
        format: 'esm',
        minify: true,
        // The bundle may run from a URL. Then it is in no folder, and must not look into one.
        define: { 'import.meta.dirname': '"/dev/null"', ...commitDefine() },
      },
    )
    const [output, ...others] = result.outputs
    if (!result.success || !output || others.length > 0)
      throw new Error('src/main.ts does not become one file.')
    const text = `${firstLine}\n${replaceRequire(withoutFirstLines(await output.text()))}`
    if (text.includes(join(root, 'node_modules')))
      throw new Error('a package in the bundle holds the path of the folder in which it was built')
    const built = join(workshop, 'with its first line')
    await writeFile(built, text, { mode: 0o755 })
    await rename(built, outfile)
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

/**
 * These packages name their ES modules in a field that is ignored for Node. Their other forms hold the path of
 * the folder in which they were built, and look for files there.
 */
const asModules: Setup = build => {
  for (const [name, path] of [
    ['jsonc-parser', 'lib/esm/main.js'],
    ['silk-wasm', 'lib/index.mjs'],
  ] as const)
    build.onResolve({ filter: new RegExp(`^${name}$`) }, () => ({
      path: join(root, 'node_modules', name, path),
    }))
}

/** The decoder of voice reads its WebAssembly from its own folder. Here it gets what is packed. */
const withDecoder: Setup = build => {
  build.onLoad({ filter: /[\\/]silk-wasm[\\/]lib[\\/]index\.mjs$/ }, async ({ path }) => {
    const changes = [
      ['await silk_default()', `await silk_default({ wasmBinary: await readBundledFile('silk.wasm') })`],
      ['a(import.meta.url)', 'name=>process.getBuiltinModule(name)'],
    ] as const
    let contents = `import { readBundledFile } from '${root}/src/platform/packed.ts'\n${await readFile(path, 'utf8')}`
    for (const [from, to] of changes) {
      if (!contents.includes(from)) throw new Error('silk-wasm reads its files in an unknown form')
      contents = contents.replaceAll(from, () => to)
    }
    return { contents, loader: 'js' }
  })
}

/**
 * CommonJS packages require parts of the runtime. Bun resolves them relative to the requiring file, which
 * does not exist when the program runs from a URL. So they are taken from `process` instead.
 */
function replaceRequire(text: string): string {
  const name = /\bimport\{createRequire as ([\w$]+)\}from"node:module";/.exec(text)?.[1]
  const call = `${name}(import.meta.url)`
  if (!name || text.split(call).length !== 2)
    throw new Error('the bundle requires parts of the runtime in an unknown form')
  return text.replace(call, () => '(name=>process.getBuiltinModule(name))')
}

/** Makes the file executable by its name. */
const firstLine = '#!/usr/bin/env -S deno run --allow-all'

/** Removes the first lines: the sources start with a line for Bun, and Bun marks its output with another. */
const withoutFirstLines = (text: string) => text.replace(/^#!.*\n/, '').replace(/^\/\/ @bun\b.*\n/, '')

/** Replaces the empty module by one with these files. The files themselves are not bundled a second time. */
const packing =
  (files: Record<string, string>): Setup =>
  build => {
    build.onLoad({ filter: /[\\/]platform[\\/]packed-files\.ts$/ }, () => ({
      contents: `export const packedFiles = ${JSON.stringify(files)}`,
      loader: 'js',
    }))
    build.onLoad({ filter: /\.br$/ }, () => ({ contents: '', loader: 'js' }))
  }

/** Returns the files under the names that the program uses for them. */
async function packFiles(panel: string): Promise<Record<string, string>> {
  const names = (await readdir(panel, { recursive: true, withFileTypes: true }))
    .filter(entry => entry.isFile() && !/\.(br|gz)$/.test(entry.name))
    .map(entry =>
      join(entry.parentPath, entry.name)
        .slice(panel.length + 1)
        .replaceAll('\\', '/'),
    )
    .sort()
  // The best quality takes 5 s more and saves 2 % of the file.
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }
  const pack = async (name: string, path: string) => {
    const content = await promisify(brotliCompress)(await readFile(path), quality)
    return [name, content.toString('base64')] as const
  }
  const packed = [
    ...names.map(name => pack(`panel/${name}`, join(panel, name))),
    pack('silk.wasm', join(root, 'node_modules/silk-wasm/lib/silk.wasm')),
  ]
  const compressed = [
    ['docs/scalar.js', 'server/docs/scalar.js.br'],
    ['licenses.txt', 'cli/licenses.txt.br'],
  ] as const
  const copied = compressed.map(async ([name, path]) => {
    return [name, await readFile(join(root, 'src', path), 'base64')] as const
  })
  return Object.fromEntries(await Promise.all([...packed, ...copied]))
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
