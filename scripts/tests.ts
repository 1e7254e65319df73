/**
 * Runs the tests and lists the failures with their reasons at the end, because in a long output they are far
 * above.
 *
 *   bun scripts/tests.ts [--long] [--check COMMAND]… [--order=SEED] [ARGUMENT…]
 *
 * Each COMMAND runs before the tests; one that fails counts as a failed test. The arguments are those of `bun
 * test`. Without arguments all tests run except those in `*.long.test.ts`; `--long` runs only those, or those of
 * `--shard`, and lists at the end what it left out. No test is retried.
 *
 * The usual test files share four processes, which load svc once: `test/support/leftovers.ts` makes a file fail
 * that changes such a process for those after it. The long ones have a process each. Slow files start first, by
 * `test/timings.json`; `--order` shuffles the files instead.
 *
 * Unless files are named, the binary is built first, once: it starts in a third of the processor time that
 * the sources take. SVC_TEST_PROGRAM names a program to start instead. SVC_TEST_MISSING has a line for each
 * package that is not installed, which the end repeats.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseXml, XmlElement } from '@rgrove/parse-xml'
import { startProgress } from './progress.ts'

const maxLines = 30
const memory = '/dev/shm'
/** Space that the tests need there. */
const memoryBytes = 4 * 1024 ** 3
/** The end of the names of files whose tests take minutes or wait long. */
const longMark = 'long.test.ts'
/** How long what an interrupted run has started may take to end by itself. */
const endsWithinMs = 500
const support = join(import.meta.dirname, '../test/support')

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
    env: { ...environment, GIT_DIR: join(folder, 'none') },
  })
  if ((await building.exited) !== 0) throw new Error('The binary that the tests start could not be built.')
  return { SVC_TEST_PROGRAM: program }
}

/** Runs a check to its end. @returns its output if it failed */
async function check(command: string): Promise<Failure | undefined> {
  const startedAt = performance.now()
  const child = Bun.spawn(command.split(' '), { stdio: ['ignore', 'pipe', 'pipe'], env: environment })
  const [status, ...output] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  const seconds = (performance.now() - startedAt) / 1000
  progress.say(`${command}: ${status === 0 ? 'ok' : 'failed'} (${seconds.toFixed(1)} s)\n`)
  return status === 0 ? undefined : { file: 'check', name: command, seconds, why: output.join('\n') }
}

/** The options of `bun test` for the files that are chosen. */
async function optionsOf(folder: string): Promise<string[]> {
  const options = [`--preload=${join(support, 'progress.ts')}`]
  if (isLong) {
    const flags = args.filter(arg => arg.startsWith('-'))
    // Bun runs what fits any of its arguments, so the files are listed if some are chosen.
    const chosen = isNamed ? listFiles() : [`.${longMark}`]
    return [
      ...options,
      '--timings=test/long-timings.json',
      ...(chosen.length > 0 ? [...flags, ...chosen] : args),
    ]
  }
  options.push('--no-isolate', `--preload=${join(support, 'leftovers.ts')}`)
  // Files named in the arguments run even if they are *.long.test.ts.
  if (!isNamed) options.push('--only-failures', `--path-ignore-patterns=**/*.${longMark}`)
  if (order === undefined) return [...options, '--timings=test/timings.json', ...args]
  const shuffled = join(folder, 'shuffled.json')
  const files = Object.fromEntries(
    listFiles().map(file => [file, 1 + (Number(Bun.hash.crc32(`${order} ${file}`)) % 100_000)]),
  )
  await writeFile(shuffled, JSON.stringify({ version: 1, files }))
  return [...options, `--timings=${shuffled}`, ...args]
}

/** Runs the tests. The timeout of two minutes per test allows for a machine that stands still for seconds. */
async function run(): Promise<Run> {
  const report = join(folder, 'report.xml')
  const options = await optionsOf(folder)
  progress.count(listFiles().length, join(folder, 'done'))
  const child = Bun.spawn(
    [
      process.execPath,
      'test',
      // Four files at the same time, because half of a test is waiting.
      '--parallel=4',
      '--timeout=120000',
      '--reporter=junit',
      `--reporter-outfile=${report}`,
      ...options,
    ],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...environment,
        SVC_TEST_DONE: join(folder, 'done'),
        ...(process.stdout.isTTY && { FORCE_COLOR: '1' }),
      },
    },
  )
  let end = ''
  const read = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder()
    for await (const chunk of stream) {
      const text = decoder.decode(chunk, { stream: true })
      progress.say(text)
      end = (end + text).slice(-2000)
    }
  }
  await Promise.all([read(child.stdout), read(child.stderr)])
  const status = await child.exited
  const found = parseReport(await readFile(report, 'utf8').catch(() => '<testsuites/>'))
  // An error outside any test is not in the report. A run that broke off shows it only by its status.
  const errors = Number(/^ (\d+) errors?$/m.exec(Bun.stripANSI(end))?.[1] ?? 0)
  return { ...found, errors: errors || (status !== 0 && found.failures.length === 0 ? 1 : 0) }
}

/** The test files that the arguments choose. */
function listFiles(): string[] {
  const parts = args.filter(arg => !arg.startsWith('-'))
  return [...new Bun.Glob('**/*.test.ts').scanSync()].filter(file => {
    if (file.includes('node_modules/')) return false
    const isChosen = parts.some(part => file.includes(part.replace(/^\.\//, '')))
    // Files named in the arguments of the usual tests run even if they are long.
    if (parts.length > 0 && (!isLong || !isChosen)) return isChosen
    return file.endsWith(`.${longMark}`) === isLong
  })
}

/** Ends every process that the run has started, also those that left its process group. */
async function endAll(): Promise<void> {
  const startedAt = performance.now()
  for (;;) {
    const found = listStarted()
    if (found.length === 0) return
    const isPatient = performance.now() - startedAt < endsWithinMs
    for (const pid of found)
      try {
        process.kill(pid, isPatient ? 'SIGTERM' : 'SIGKILL')
      } catch {
        // It has ended.
      }
    await Bun.sleep(50)
  }
}

/** Processes that have the run's folder in their environment, command line or working folder. */
function listStarted(): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc').flatMap(pid => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return []
    try {
      const state = readFileSync(`/proc/${pid}/stat`, 'latin1').replace(/^.*\) /, '')
      const traces = ['environ', 'cmdline'].map(name => readFileSync(`/proc/${pid}/${name}`, 'latin1'))
      traces.push(readlinkSync(`/proc/${pid}/cwd`))
      return !state.startsWith('Z') && traces.some(trace => trace.includes(folder)) ? Number(pid) : []
    } catch {
      return []
    }
  })
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

/** Names what some tests did not find. */
function printMissing({ skipped }: Run): void {
  const missing = (process.env.SVC_TEST_MISSING ?? '').split('\n').filter(Boolean)
  if (missing.length > 0)
    console.log(
      [`\nNot installed, which some of the ${skipped.length} skipped tests need:`, ...missing].join('\n    '),
    )
}

const args = process.argv.slice(2)
const isLong = args[0] === '--long'
if (isLong) args.shift()
const checks: string[] = []
while (args[0] === '--check') checks.push(args.splice(0, 2)[1] ?? '')
const order = args[0]?.startsWith('--order=') ? args.shift()?.slice('--order='.length) : undefined
const isNamed = args.some(arg => !arg.startsWith('-'))
const folder = await mkdtemp(join((await findMemoryFolder()) ?? tmpdir(), 'svc-tests-'))
// Other users need access, because some tests start svc as another user.
await chmod(folder, 0o755)
// What a test leaves behind is removed with the folder.
const TMPDIR = join(folder, 'tmp')
await mkdir(TMPDIR, { mode: 0o1777 })
await chmod(TMPDIR, 0o1777)
const environment: Record<string, string | undefined> = { ...process.env, TMPDIR }
const removeFolder = () =>
  // A server that test files share ends a moment after them, and writes until then.
  rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
const progress = startProgress()
/** Set by a signal: what was started is being ended. */
let interruption: Promise<never> | undefined
async function interrupt(status: number): Promise<never> {
  progress.end()
  await endAll()
  await removeFolder()
  process.exit(status)
}
for (const [signal, status] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => {
    interruption ??= interrupt(status)
  })

try {
  if (order !== undefined) progress.say(`Order of files: ${order}\n`)
  if (checks.length > 0) progress.say(`Checks: ${checks.join(', ')} …\n`)
  const before = (await Promise.all(checks.map(check))).filter(failure => failure !== undefined)
  if (!isNamed && !process.env.SVC_TEST_PROGRAM) {
    progress.say('Building svc …\n')
    Object.assign(environment, await buildProgram(folder))
  }
  const done = await run()
  await interruption
  progress.end()
  if (isLong && !isNamed) printLeftOut(done)
  printFailures([...before, ...done.failures])
  printMissing(done)
  if (order !== undefined) console.log(`\nOrder of files: ${order}`)
  const failed = before.length + done.failures.length + done.errors
  console.log(`\n${done.tests - done.skipped.length - done.failures.length} passed, ${failed} failed`)
  process.exitCode = failed === 0 ? 0 : 1
} finally {
  await interruption
  await removeFolder()
}
process.exit()
