/**
 * Runs the tests and lists the failures with their reasons at the end, because in a long output they are far
 * above.
 *
 *   bun scripts/tests.ts [--long] [--check COMMAND]… [ARGUMENT…]
 *
 * Each COMMAND runs before the tests; one that fails counts as a failed test. The arguments are those of `bun
 * test`. Without arguments all tests run except those in `*.long.test.ts`; `--long` runs only those, or those of
 * `--shard`, and lists at the end what it left out. No test is retried.
 *
 * Unless files are named, the binary is built first, once: it starts in a third of the processor time that
 * the sources take. SVC_TEST_PROGRAM names a program to start instead.
 */
import { chmod, mkdir, mkdtemp, readFile, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseXml, XmlElement } from '@rgrove/parse-xml'
import { panelFolder } from './panel.ts'

const maxLines = 30
const memory = '/dev/shm'
/** Space that the tests need there. */
const memoryBytes = 4 * 1024 ** 3
/** The end of the names of files whose tests take minutes or wait long. */
const longMark = 'long.test.ts'
/** How long each of these files took. Bun makes parts of equal length from it, and starts the slowest first. */
const timings = 'test/long-timings.json'

interface Failure {
  file: string
  name: string
  seconds: number
  why: string
}

interface Run {
  tests: number
  /** Names of tests that were skipped, with their files. */
  skipped: string[]
  /** Files of which a test ran or was skipped. */
  files: Set<string>
  failures: Failure[]
  /** Errors outside any test: a file that does not load, a run that broke off. */
  errors: number
}

/**
 * Returns a folder in memory, if there is space and programs may run there. Most of the time of a test with a
 * real store is the wait for a disk.
 */
async function findMemoryFolder(): Promise<string | undefined> {
  const mounts = await readFile('/proc/mounts', 'utf8').catch(() => '')
  const [, , type, options = ''] =
    mounts
      .split('\n')
      .map(line => line.split(' '))
      .find(([, at]) => at === memory) ?? []
  if (type !== 'tmpfs' || options.split(',').includes('noexec')) return undefined
  const { bavail, bsize } = await statfs(memory)
  return bavail * bsize >= memoryBytes ? memory : undefined
}

/** Builds what all test files share. @returns the variables that name it */
async function buildProgram(folder: string): Promise<Record<string, string>> {
  const program = join(folder, process.platform === 'win32' ? 'svc.exe' : 'svc')
  const script = join(import.meta.dirname, 'build.ts')
  const building = Bun.spawn([process.execPath, script, `--outfile=${program}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
    // Without a repository its version names no commit, as that of the sources, with which tests compare it.
    env: { ...process.env, GIT_DIR: join(folder, 'none') },
  })
  if ((await building.exited) !== 0) throw new Error('The binary that the tests start could not be built.')
  // The setup has built the panel.
  return { SVC_TEST_PROGRAM: program, SVC_TEST_PANEL: panelFolder }
}

/** Runs a check to its end. @returns its output if it failed */
async function check(command: string): Promise<Failure | undefined> {
  const startedAt = performance.now()
  const child = Bun.spawn(command.split(' '), { stdio: ['ignore', 'pipe', 'pipe'] })
  const [status, ...output] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  const seconds = (performance.now() - startedAt) / 1000
  console.error(`${command}: ${status === 0 ? 'ok' : 'failed'} (${seconds.toFixed(1)} s)`)
  return status === 0 ? undefined : { file: 'check', name: command, seconds, why: output.join('\n') }
}

/** Runs the tests. The timeout of two minutes per test allows for a machine that stands still for seconds. */
async function run(args: readonly string[], isNamed: boolean): Promise<Run> {
  const folder = await mkdtemp(join((await findMemoryFolder()) ?? tmpdir(), 'svc-tests-'))
  // Other users need access, because some tests start svc as another user.
  await chmod(folder, 0o755)
  const report = join(folder, 'report.xml')
  try {
    const built = isNamed || process.env.SVC_TEST_PROGRAM ? {} : await buildProgram(folder)
    // What a test leaves behind is removed with the folder.
    const TMPDIR = join(folder, 'tmp')
    await mkdir(TMPDIR, { mode: 0o1777 })
    await chmod(TMPDIR, 0o1777)
    const extra = { ...built, TMPDIR }
    const child = Bun.spawn(
      [
        process.execPath,
        'test',
        '--timeout=120000',
        '--reporter=junit',
        `--reporter-outfile=${report}`,
        ...args,
      ],
      {
        stdio: ['ignore', 'inherit', 'pipe'],
        env: { ...process.env, ...extra, ...(process.stderr.isTTY && { FORCE_COLOR: '1' }) },
      },
    )
    const decoder = new TextDecoder()
    let end = ''
    for await (const chunk of child.stderr) {
      process.stderr.write(chunk)
      end = (end + decoder.decode(chunk, { stream: true })).slice(-2000)
    }
    const status = await child.exited
    const found = parseReport(await readFile(report, 'utf8').catch(() => '<testsuites/>'))
    // An error outside any test is not in the report. A run that broke off shows it only by its status.
    const errors = Number(/^ (\d+) errors?$/m.exec(Bun.stripANSI(end))?.[1] ?? 0)
    return { ...found, errors: errors || (status !== 0 && found.failures.length === 0 ? 1 : 0) }
  } finally {
    // A server that test files share ends a moment after them, and writes until then.
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}

/** Reads a report in the JUnit format. */
function parseReport(xml: string): Omit<Run, 'errors'> {
  const { root } = parseXml(xml)
  const cases = (root ? listCases(root) : []).map(element => ({
    file: element.attributes.file ?? '',
    name: [element.attributes.classname, element.attributes.name].filter(Boolean).join(' > '),
    seconds: Number(element.attributes.time),
    element,
  }))
  return {
    tests: cases.length,
    skipped: cases
      .filter(({ element }) => findChild(element, 'skipped'))
      .map(({ file, name }) => `${file}: ${name}`),
    files: new Set(cases.map(({ file }) => file)),
    failures: cases.flatMap(({ file, name, seconds, element }) => {
      const failure = findChild(element, 'failure')
      if (!failure) return []
      return { file, name, seconds, why: (failure.text || failure.attributes.message) ?? '' }
    }),
  }
}

const listElements = ({ children }: XmlElement) => children.filter(node => node instanceof XmlElement)
const findChild = (element: XmlElement, name: string) =>
  listElements(element).find(inner => inner.name === name)
const listCases = (element: XmlElement): XmlElement[] =>
  listElements(element).flatMap(inner => (inner.name === 'testcase' ? inner : listCases(inner)))

function printFailures(failures: readonly Failure[]): void {
  if (failures.length > 0) console.log('\nFailed:')
  for (const { file, name, seconds, why } of failures) {
    const lines = why.trim().split('\n')
    const displayed = lines.length > maxLines ? [...lines.slice(0, maxLines), '…'] : lines
    console.log(
      `\n${file}: ${name} (${seconds.toFixed(1)} s)\n${displayed.map(line => `    ${line}`).join('\n')}`,
    )
  }
}

/** Lists files of long tests of which no test ran, and tests that were skipped. */
function printLeftOut({ files, skipped }: Run): void {
  const left = [...new Bun.Glob(`test/**/*.${longMark}`).scanSync()].filter(file => !files.has(file)).sort()
  for (const [what, names] of Object.entries({ 'Left out': left, Skipped: skipped }))
    if (names.length > 0) console.log([`\n${what}:`, ...names].join('\n    '))
}

const args = process.argv.slice(2)
const isLong = args[0] === '--long'
if (isLong) args.shift()
const checks: string[] = []
while (args[0] === '--check') checks.push(args.splice(0, 2)[1] ?? '')
const usual = isLong ? `.${longMark}` : `--path-ignore-patterns=**/*.${longMark}`
// Files named in the arguments run even if they are *.long.test.ts.
const isNamed = args.some(arg => !arg.startsWith('-'))
const chosen = isNamed ? args : [usual, ...args]
if (isLong) chosen.push(`--timings=${timings}`)
const before = (await Promise.all(checks.map(check))).filter(failure => failure !== undefined)
// Four files at the same time, because half of a test is waiting.
const done = await run(['--parallel=4', ...chosen], isNamed)
if (isLong && !isNamed) printLeftOut(done)
printFailures([...before, ...done.failures])
const failed = before.length + done.failures.length + done.errors
console.log(`\n${done.tests - done.skipped.length - done.failures.length} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
