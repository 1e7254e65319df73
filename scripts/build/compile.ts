/** One binary. */
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import process from 'node:process'
import pkg from '../../package.json' with { type: 'json' }
import { labelled } from './label.ts'
import { type RuntimeSource, unpackRuntime } from './runtime.ts'
import { signed } from './sign.ts'
import type { Target } from './targets.ts'

const root = resolve(import.meta.dirname, '../..')

export interface CompileOptions {
  outfile: string
  /** The built panel. */
  panel: string
  /** This machine, and the Bun that runs this, where none is named. */
  target?: Target
  entry?: string
  runtimes?: RuntimeSource
}

/** Compiles, whole or not at all. */
export async function compile(options: CompileOptions): Promise<void> {
  const { outfile, panel, target, entry = join(root, 'src/main.ts') } = options
  if (target && Bun.version !== pkg.devDependencies.bun) {
    throw new Error(
      `Binaries for a named target are built by Bun ${pkg.devDependencies.bun}, whose runtimes bun.lock names; ` +
        `this is Bun ${Bun.version}. \`npm run build\` takes the right one.`,
    )
  }
  // A build that fails must not leave yesterday's binary in place.
  await rm(outfile, { force: true })
  await mkdir(dirname(outfile), { recursive: true })
  // The source maps are inside the binary; the copies that Bun leaves beside it go with this folder.
  const workshop = await mkdtemp(join(dirname(outfile), '.build-'))
  try {
    // The name goes into the binary: with one for all, what a file is called does not change what is in it.
    const built = join(workshop, outfile.endsWith('.exe') ? 'svc.exe' : 'svc')
    const result = await Bun.build({
      entrypoints: [entry],
      compile: {
        outfile: built,
        ...(target && {
          target: target.name,
          executablePath: await runtimeFor(target, workshop, options.runtimes),
        }),
        // What lies in the folder where svc is started is none of its business.
        autoloadDotenv: false,
        autoloadBunfig: false,
        // Lies beside the program's own files in there, as `panel`.
        assets: await inOrder(panel, workshop),
      },
      minify: true,
      // Bytecode starts in a quarter of the time; it is CommonJS, which has no top-level await, unless the format is named.
      bytecode: true,
      format: 'esm',
      // Else what is loaded on use is one file with the rest, and the runtime's modules that it imports load at the start.
      splitting: true,
      sourcemap: 'linked',
    })
    for (const message of result.logs) console.error(message)
    if (!result.success) throw new Error(`${entry} does not compile.`)
    if ((target?.name ?? `bun-${process.platform}-${process.arch}`) === 'bun-darwin-x64') {
      await writeFile(built, signed(await readFile(built), 'svc'))
    }
    await rename(built, outfile)
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

async function runtimeFor(target: Target, workshop: string, source?: RuntimeSource): Promise<string> {
  const path = await unpackRuntime(target.runtime, workshop, source)
  if (target.name.startsWith('bun-windows')) await writeFile(path, labelled(await readFile(path), pkg))
  return path
}

/**
 * Bun embeds the files of a folder in the order in which the file system happens to list them, and the bytes of the
 * binary with them. So each file gets a folder of its own, all of them called `panel`, which Bun lays over each other.
 */
async function inOrder(panel: string, workshop: string): Promise<string[]> {
  const entries = await readdir(panel, { recursive: true, withFileTypes: true })
  const names = entries
    .filter(one => one.isFile())
    .map(one => relative(panel, join(one.parentPath, one.name)))
  return Promise.all(
    names.sort().map(async (name, index) => {
      const folder = join(workshop, `${index}`, 'panel')
      await cp(join(panel, name), join(folder, name))
      return folder
    }),
  )
}
