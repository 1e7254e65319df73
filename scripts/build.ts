/**
 * `bun run build [--target=bun-linux-arm64] [--outfile=dist/svc]`: one file that runs with nothing installed.
 *
 * The version comes from package.json alone, which src/version.ts imports and the build embeds.
 */
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { buildPanel, panelFolder } from './panel.ts'

const root = resolve(import.meta.dirname, '..')
const { values } = parseArgs({
  args: process.argv.slice(2),
  options: {
    target: { type: 'string' },
    outfile: { type: 'string' },
    entry: { type: 'string', default: join(root, 'src/main.ts') },
  },
})
const isTarget = (text: string): text is Bun.Build.CompileTarget => text.startsWith('bun-')
if (values.target !== undefined && !isTarget(values.target)) {
  throw new Error(`--target: expected a name as bun-linux-arm64, got ${values.target}`)
}
const forWindows = values.target?.includes('windows') ?? process.platform === 'win32'
const wanted = resolve(values.outfile ?? join(root, 'dist', values.target?.replace(/^bun/, 'svc') ?? 'svc'))
const outfile = forWindows && !wanted.endsWith('.exe') ? `${wanted}.exe` : wanted

await mkdir(dirname(outfile), { recursive: true })
// A build that fails must not leave yesterday's binary in place.
await rm(outfile, { force: true })
// The source maps are inside the binary; the copies that Bun leaves beside it go with this folder.
await buildPanel()
const workshop = await mkdtemp(join(dirname(outfile), '.build-'))
const built = join(workshop, basename(outfile))
try {
  const result = await Bun.build({
    entrypoints: [values.entry],
    compile: {
      outfile: built,
      ...(values.target !== undefined && { target: values.target }),
      // What lies in the folder where svc is started is none of its business.
      autoloadDotenv: false,
      autoloadBunfig: false,
      // Lies beside the program's own files in there, as `panel`.
      assets: [panelFolder],
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
  if (result.success) await rename(built, outfile)
} finally {
  await rm(workshop, { recursive: true, force: true })
}
console.log(`${outfile} (${(Bun.file(outfile).size / 1e6).toFixed(1)} MB)`)
