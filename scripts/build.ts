/**
 * Builds svc as one file that runs without anything installed:
 *
 *   bun run build                             dist/svc, for this machine
 *   bun run build --target=bun-linux-arm64    dist/svc-linux-arm64 (--outfile names another file)
 *   bun run build --all                       dist/release: all targets, compressed files, sums, installer
 *                                             (--outdir names another folder; with --target, only these)
 *
 * `--url` is the future address of the release files, for the installer. The version comes only from
 * package.json, which src/version.ts imports and the build embeds.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { compile } from './build/compile.ts'
import { buildRelease } from './build/release.ts'
import { findTarget, targets } from './build/targets.ts'
import { buildPanel } from './panel.ts'

const root = resolve(import.meta.dirname, '..')

function parseOptions() {
  const { values } = parseArgs({
    options: {
      all: { type: 'boolean', default: false },
      target: { type: 'string', multiple: true, default: [] },
      outfile: { type: 'string' },
      outdir: { type: 'string' },
      url: { type: 'string' },
      entry: { type: 'string' },
    },
  })
  const named = values.target.map(findTarget)
  const release = values.all || values.outdir !== undefined
  const wrong = (
    [
      [values.all && named.length > 0, '--all and --target: choose one'],
      [release && values.outfile !== undefined, '--outfile is for one binary; a release has --outdir'],
      [release && values.entry !== undefined, '--entry is for one binary'],
      [!release && named.length > 1, 'several targets need --outdir'],
      [!release && values.url !== undefined, '--url is for a release (--all)'],
    ] as const
  ).find(([is]) => is)
  if (wrong) throw new Error(wrong[1])
  const [outfile, outdir, entry] = [values.outfile, values.outdir, values.entry].map(path =>
    path === undefined ? undefined : resolve(path),
  )
  return { ...values, outfile, outdir, entry, named, release }
}

async function buildOne({ named: [target], outfile, entry }: ReturnType<typeof parseOptions>): Promise<void> {
  const forWindows = target?.name.includes('windows') ?? process.platform === 'win32'
  const requestedPath = outfile ?? join(root, 'dist', target?.file ?? 'svc')
  const path = forWindows && !requestedPath.endsWith('.exe') ? `${requestedPath}.exe` : requestedPath
  // Build another panel than the one that a running service reads: two builds may run at the same time.
  const workshop = await mkdtemp(join(tmpdir(), 'svc-panel-'))
  try {
    const panel = join(workshop, 'panel')
    await buildPanel(panel)
    await compile({ outfile: path, panel, target, entry })
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
  console.log(`${path} (${(Bun.file(path).size / 1e6).toFixed(1)} MB)`)
}

try {
  const chosen = parseOptions()
  // Bun writes into the binary how the sources are reached from the working folder.
  process.chdir(root)
  if (chosen.release) {
    await buildRelease({
      outdir: chosen.outdir ?? join(root, 'dist/release'),
      targets: chosen.all || chosen.named.length === 0 ? targets : chosen.named,
      url: chosen.url,
      print: line => console.log(line),
    })
  } else {
    await buildOne(chosen)
  }
} catch (error) {
  // When Bun's build fails, its messages are in an AggregateError.
  console.error(error instanceof AggregateError ? error : `error: ${(error as Error).message}`)
  process.exitCode = 1
}
