/** Compiles one binary. */
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import process from 'node:process'
import pkg from '../../package.json' with { type: 'json' }
import { commitDefine } from './commit.ts'
import { withLabel } from './label.ts'
import { buildWith, withoutColors } from './plugins.ts'
import { type RuntimeSource, unpackRuntime } from './runtime.ts'
import { signProgram } from './sign.ts'
import type { Target } from './targets.ts'

const root = resolve(import.meta.dirname, '../..')
const main = join(root, 'src/main.ts')

export interface CompileOptions {
  outfile: string
  /** The folder of the built panel. */
  panel: string
  /** Default: this machine, with the Bun that runs this script. */
  target?: Target
  entry?: string
  runtimes?: RuntimeSource
}

/** Compiles the binary. A failure leaves no file. */
export async function compile(options: CompileOptions): Promise<void> {
  const { outfile, panel, target, entry = main } = options
  if (target && Bun.version !== pkg.devDependencies.bun) {
    throw new Error(
      `Binaries for a named target are built by Bun ${pkg.devDependencies.bun}, whose runtimes bun.lock names; ` +
        `this is Bun ${Bun.version}. \`npm run build\` takes the right one.`,
    )
  }
  // A failed build must not leave an older binary in place.
  await rm(outfile, { force: true })
  await mkdir(dirname(outfile), { recursive: true })
  // The source maps are inside the binary. Bun also writes copies beside it, which are removed with this
  // folder.
  const workshop = await mkdtemp(join(dirname(outfile), '.build-'))
  try {
    // The name becomes part of the binary. A fixed name keeps the bytes the same whatever the file is called.
    const built = join(workshop, outfile.endsWith('.exe') ? 'svc.exe' : 'svc')
    const result = await buildWith(entry === main ? { withoutColors } : {}, {
      entrypoints: [entry],
      compile: {
        outfile: built,
        ...(target && {
          target: target.name,
          executablePath: await runtimeFor(target, workshop, options.runtimes),
        }),
        // svc must not read these files from the folder in which it is started.
        autoloadDotenv: false,
        autoloadBunfig: false,
        // In the binary, these are `panel` and `silk.wasm`, beside the program's own files.
        assets: [...(await listInOrder(panel, workshop)), join(root, 'node_modules/silk-wasm/lib/silk.wasm')],
      },
      minify: true,
      define: commitDefine(),
      // With bytecode, svc starts in a quarter of the time. Without `format` it would be CommonJS, which has
      // no top-level await.
      bytecode: true,
      format: 'esm',
      // Without splitting, code that is loaded on use would be in the same file, and its runtime modules
      // would load at the start.
      splitting: true,
      sourcemap: 'linked',
    })
    if (!result.success) throw new Error(`${entry} does not compile.`)
    if ((target?.name ?? `bun-${process.platform}-${process.arch}`) === 'bun-darwin-x64') {
      await writeFile(built, signProgram(await readFile(built), 'svc'))
    }
    await rename(built, outfile)
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

async function runtimeFor(target: Target, workshop: string, source?: RuntimeSource): Promise<string> {
  const path = await unpackRuntime(target.runtime, workshop, source)
  if (target.name.startsWith('bun-windows')) await writeFile(path, withLabel(await readFile(path), pkg))
  return path
}

/**
 * Bun embeds the files of a folder in the order in which the file system lists them, which changes the bytes
 * of the binary. So each file gets its own folder named `panel`, and Bun merges these folders.
 */
async function listInOrder(panel: string, workshop: string): Promise<string[]> {
  const entries = await readdir(panel, { recursive: true, withFileTypes: true })
  const names = entries
    .filter(file => file.isFile())
    .map(one => relative(panel, join(one.parentPath, one.name)))
  return Promise.all(
    names.sort().map(async (name, index) => {
      const folder = join(workshop, `${index}`, 'panel')
      await cp(join(panel, name), join(folder, name))
      return folder
    }),
  )
}
