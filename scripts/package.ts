/**
 * Makes what `npm pack` adds to the sources: `lib`, which is `src` as JavaScript with types, and the panel.
 * Two files in `lib` are for Node: the one that a program imports, and the one that npx starts. `client.d.ts` has the types of
 * `svc/client` in one file.
 *
 * What is wrong with the types is found by the check of the tests; here tsc looks only at what it declares.
 *
 * `lib` is JavaScript because runtimes other than Bun accept no TypeScript from a package. There is one
 * file per source, so that stack traces are readable. Maps lead from the types to the sources.
 */
import { chmod, cp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { extname, join, resolve } from 'node:path'
import process from 'node:process'
import { engines } from '../package.json' with { type: 'json' }
import { clientDeclarations } from './build/client-types.ts'
import { commitLabel } from './build/commit.ts'
import { buildPanel, makeWorkshop } from './panel.ts'

const root = resolve(import.meta.dirname, '..')
/** The file that npx starts with Node. It starts svc itself with Bun. */
const program = `#!/usr/bin/env node
if (process.versions.bun || globalThis.Deno) await import('./main.js')
else {
  const { spawn } = await import('node:child_process')
  const { delimiter, dirname } = await import('node:path')
  const { fileURLToPath } = await import('node:url')
  // npm has installed Bun in node_modules/.bin, beside this program.
  const PATH = process.env.PATH + delimiter + dirname(process.argv[1])
  const main = fileURLToPath(new URL('./main.js', import.meta.url))
  const child = spawn('bun', [main, ...process.argv.slice(2)], { stdio: 'inherit', env: { ...process.env, PATH } })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // npx passes a signal only to the shell in between, which ends.
  const { ppid } = process
  const watch = process.env.npm_command === 'exec' && setInterval(() => {
    if (process.ppid === ppid) return
    clearInterval(watch)
    child.kill()
  }, 200).unref()
  child.on('error', () => {
    console.error('error: svc runs on Bun, and there is none here. Install it with: npm install bun')
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? 1
    if (signal === null) return
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}
`
const library = join(root, 'lib')

await buildPanel()
// A failure changes nothing: a package with half of lib would install well and fail later.
const workshop = await makeWorkshop(join(root, '.lib-'))
try {
  const tsc = Bun.spawn(
    [join(root, 'node_modules/.bin/tsc'), '-p', join(root, 'tsconfig.package.json'), '--outDir', workshop],
    { stdout: 'inherit', stderr: 'inherit' },
  )
  if ((await tsc.exited) !== 0) throw new Error('the sources do not compile; tsc says above what is wrong')
  // Copies the files that are imported as text. The other files are compiled, or are read beside the sources.
  const isRead = (path: string) => !['.ts', '.md'].includes(extname(path))
  await cp(join(root, 'src'), workshop, { recursive: true, filter: isRead })
  await writeFile(join(workshop, 'on-node.js'), await createNodeModule())
  await writeFile(join(workshop, 'svc.js'), program)
  await writeFile(join(workshop, 'client.d.ts'), await clientDeclarations(root))
  const commit = commitLabel()
  if (commit !== undefined) {
    const path = join(workshop, 'version.js')
    await writeFile(path, `const svcCommit = '${commit}'\n${await readFile(path, 'utf8')}`)
  }
  await chmod(join(workshop, 'svc.js'), 0o755)
  await rm(library, { recursive: true, force: true })
  await rename(workshop, library)
} catch (error) {
  console.error(error)
  process.exitCode = 1
} finally {
  await rm(workshop, { recursive: true, force: true })
}

/**
 * Returns the module for `import 'svc'` under Node. An older Node could not even parse the rest, so it checks
 * the version first.
 */
async function createNodeModule(): Promise<string> {
  const names = Object.keys(await import('../src/index.ts'))
  const least = Number(/\d+/.exec(engines.node)![0])
  return `if (Number(process.versions.node.split('.')[0]) < ${least})
  throw new Error(\`svc needs Node ${least} or later, Bun or Deno; this is Node \${process.versions.node}.\`)
export const { ${names.join(', ')} } = await import('./index.js')
`
}
