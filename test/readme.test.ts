/** The READMEs are a test: the conversation is run line by line in a shell, tables are compared with the code. */
import { expect, test } from 'bun:test'
import { access, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { optionTable } from '../src/config.ts'
import { tools } from '../src/operations/tools.ts'
import { folderOfTest } from './support/folder.ts'
import { overhear } from './support/overheard.ts'
import { freePort } from './support/port.ts'
import { stopwatch } from './support/stopwatch.ts'
import { until } from './support/until.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
/** Every README by its path, that of the front door first. */
const pages = new Map<string, string>()
const further = new Bun.Glob('{admin,locales,scripts,src,test}/**/README.md').scanSync({ cwd: root })
for (const path of [
  'README.md',
  '.github/SECURITY.md',
  ...[...further].filter(path => !path.includes('node_modules')).sort(),
])
  pages.set(path, await readFile(join(root, path), 'utf8'))
/** Those whose commands are run: each goes on in the same shell where the one before ends. */
const conversation = [
  'README.md',
  'src/operations/README.md',
  'src/cli/README.md',
  'src/mcp/README.md',
  'src/sandbox/README.md',
  'src/backup/README.md',
]
/** Those with commands that another test runs. */
const elsewhere = ['scripts/upgrade/README.md']
const packageJson = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const stepMs = 30_000

interface Step {
  page: string
  line: number
  code: string
  /** What the README shows of the output; undefined when it shows nothing. */
  shown?: string
}

/** The ```bash blocks of a page, each with the ```text block that follows it directly. */
function stepsOf(page: string): Step[] {
  const markdown = pages.get(page)!
  const blocks = [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(match => ({
    kind: match[1],
    text: match[2]!,
    at: match.index,
    end: match.index + match[0].length,
  }))
  return blocks.flatMap((block, index) => {
    if (block.kind !== 'bash') return []
    const next = blocks[index + 1]
    const follows = next?.kind === 'text' && markdown.slice(block.end, next.at).trim() === ''
    const line = markdown.slice(0, block.at).split('\n').length
    return [{ page, line, code: block.text, ...(follows && { shown: next.text }) }]
  })
}

/** Whether `output` is what is shown: `…` stands for anything in its line, alone on a line for any lines. */
function isShown(shown: string, output: string): boolean {
  const lines = (text: string) =>
    text
      .split('\n')
      .map(line => line.trimEnd())
      .filter(line => line !== '')
  const pattern = lines(shown)
    .map(line => (line === '…' ? '(?:.*\n)*?' : `${line.split('…').map(RegExp.escape).join('[^\n]*?')}\n`))
    .join('')
  return new RegExp(`^${pattern}$`).test(
    lines(output)
      .map(line => `${line}\n`)
      .join(''),
  )
}

test('the comparison of shown and real output can fail', () => {
  expect(isShown('{"id":"…","ok":true}', '{"id":"75","ok":true}\n')).toBe(true)
  expect(isShown('{"id":"…","ok":true}', '{"id":"75","ok":false}\n')).toBe(false)
  expect(isShown('a\n…\nd', 'a\nb\nc\nd\n')).toBe(true)
  expect(isShown('a\n…\nd', 'a\nb\nc\n')).toBe(false)
  expect(isShown('a', 'a\nb\n')).toBe(false)
  expect(isShown('a …', 'b c\n')).toBe(false)
})

test('what svc kept is removed also where only a part of it is there', async () => {
  const home = folderOfTest()
  await mkdir(join(home, '.svc-sandbox'))
  const [line = ''] = /^rm .*/m.exec(pages.get('scripts/README.md')!) ?? []
  const { exitCode } = Bun.spawnSync(['sh', '-c', line], { env: { ...process.env, HOME: home } })
  expect([exitCode, await readdir(home)]).toEqual([0, []])
})

test('no page has commands that are not run', () => {
  const run = [...conversation, ...elsewhere].sort()
  expect([...pages.keys()].filter(page => stepsOf(page).length > 0).sort()).toEqual(run)
})

test('every command does what it shows, restart included', async () => {
  const home = folderOfTest()
  // As on a fresh machine; curl and svc see none of the settings of whoever runs the tests.
  const env = { PATH: `${home}/bin:${process.env.PATH ?? ''}`, HOME: home, LANG: 'C.UTF-8' }
  // What the README calls `svc`.
  await mkdir(join(home, 'bin'))
  await writeFile(join(home, 'bin/svc'), `#!/bin/sh\nexec "${root}scripts/svc" "$@"\n`, { mode: 0o755 })
  const shell = openShell(home, env)
  let service: Started | undefined
  // It is restarted on the same ones.
  let [port, phonePort, panelPort] = [String(freePort()), String(freePort()), '']
  // The panel goes elsewhere: the usual port is taken, by this or by somebody else's program.
  const taken = createServer().on('error', () => {})
  await new Promise(done => taken.once('error', done).listen(8002, '127.0.0.1', () => done(undefined)))
  try {
    const steps = conversation.flatMap(stepsOf)
    expect(steps.length).toBeGreaterThan(10)
    for (const step of steps) {
      const here = (text: string) =>
        text
          .replaceAll('127.0.0.1:8000', `127.0.0.1:${port}`)
          .replaceAll('127.0.0.1:8001', `127.0.0.1:${phonePort}`)
          .replaceAll('127.0.0.1:8002', `127.0.0.1:${panelPort}`)
      let output: string
      const started = /^\.\/scripts\/start( .*)?$/.exec(step.code.trim())
      if (started) {
        // Ctrl-C, as the README says.
        if (service) expect(await service.end('SIGINT')).toBe(0)
        const args = started[1]?.trim().split(' ') ?? []
        service = await start(args, { ...env, SVC_PORT: port, SVC_SANDBOX_PORT: phonePort })
        ;[port, phonePort, panelPort] = service.ports
        expect(panelPort).not.toBe('8002')
        expect((await fetch(`http://127.0.0.1:${panelPort}/`)).status).toBe(200)
        // What follows the addresses comes in the same breath, though not always in the same piece.
        const { output: said } = service
        await until('the last line', 30_000, () => isShown(here(step.shown ?? ''), said())).catch(() => {})
        output = said()
      } else {
        output = await shell.run(here(step.code))
      }
      const shown = here(step.shown ?? '')
      if (!isShown(shown, output)) {
        throw new Error(
          `${step.page}:${step.line} shows\n${shown}\nbut\n${step.code}\nprinted\n${output}\n${service?.errors() ?? ''}`,
        )
      }
    }
  } finally {
    shell.end()
    await service?.end('SIGKILL')
    taken.close()
  }
}, 300_000)

interface Started {
  /** Of the service, of the phone and of the panel. */
  ports: [string, string, string]
  output(): string
  errors(): string
  end(signal: NodeJS.Signals): Promise<number>
}

/** Runs ./scripts/start until it is ready. */
async function start(args: readonly string[], env: Record<string, string>): Promise<Started> {
  const child = Bun.spawn([join(root, 'scripts/start'), ...args], {
    cwd: root,
    env,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const said = overhear(child)
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return child.exited
  }
  const ready = /^listening on \S+:(\d+)\n[\s\S]*^admin on \S+:(\d+)\n[\s\S]*^phone on \S+:(\d+)\/phone\n/m
  const isReady = () => ready.test(said.stdout) || child.exitCode !== null
  await until('it is ready', stepMs, isReady).catch(() => end('SIGKILL'))
  if (!ready.test(said.stdout))
    throw new Error(`./scripts/start did not get ready:\n${said.stdout}${said.stderr}`)
  const [, port = '', panelPort = '', phonePort = ''] = ready.exec(said.stdout) ?? []
  return { ports: [port, phonePort, panelPort], output: () => said.stdout, errors: () => said.stderr, end }
}

/** One bash that gets block after block, as from a clipboard. */
function openShell(cwd: string, env: Record<string, string>) {
  const child = Bun.spawn(['bash', '--norc'], { cwd, env, stdin: 'pipe', stdout: 'pipe', stderr: 'ignore' })
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let count = 0
  child.stdin.write('exec 2>&1\n')
  return {
    async run(code: string): Promise<string> {
      const marker = `=====${++count}=====`
      child.stdin.write(`${code}\necho; echo '${marker}'\n`)
      await child.stdin.flush()
      using watch = stopwatch()
      const late = setInterval(() => watch.ms > stepMs && child.kill('SIGKILL'), 100)
      try {
        for (;;) {
          const at = rest.indexOf(marker)
          if (at >= 0) {
            const output = rest.slice(0, at)
            rest = rest.slice(at + marker.length)
            return output
          }
          const { done, value } = await reader.read()
          if (done) throw new Error(`the shell ended or took longer than ${stepMs} ms at\n${code}\n${rest}`)
          rest += value
        }
      } finally {
        clearInterval(late)
      }
    },
    end: () => child.kill('SIGKILL'),
  }
}

/** Rows of the table under the heading, cells without backticks. */
function tableUnder(heading: string, page = 'README.md'): string[][] {
  const section = pages
    .get(page)
    ?.split(/^##? /m)
    .find(part => part.startsWith(`${heading}\n`))
  if (!section) throw new Error(`${page} has no section ${heading}`)
  return section
    .split('\n')
    .filter(line => line.startsWith('| '))
    .slice(1)
    .map(line => line.split(/(?<!\\)\|/).slice(1, -1))
    .map(cells => cells.map(cell => cell.trim().replaceAll('`', '').replaceAll('\\|', '|')))
}

test('the table of options is the one of the code', () => {
  const expected = optionTable
    .filter(option => option.commands.includes('openapi'))
    .map(option => [
      option.flag
        ? [option.short, option.flag].filter(Boolean).join(', ') +
          (option.placeholder ? ` ${option.placeholder}` : '')
        : '–',
      option.env,
      option.displayedDefault ?? (typeof option.default === 'string' ? option.default : ''),
      option.help,
    ])
  expect(tableUnder('Options of `svc openapi`', 'src/config/README.md')).toEqual(expected)
})

test('the table of tools names every tool and argument, the required ones in bold', () => {
  const expected = tools.map(tool => {
    const { properties = {}, required = [] } = tool.inputSchema as {
      properties?: object
      required?: string[]
    }
    const names = Object.keys(properties).map(name => (required.includes(name) ? `**${name}**` : name))
    return [tool.name, names.join(' ') || '–']
  })
  expect(
    tableUnder('What there is', 'src/operations/README.md').map(([name, _what, names]) => [name, names]),
  ).toEqual(expected as string[][])
})

test('the table of dependencies is the one of package.json', () => {
  expect(
    tableUnder('Dependencies', 'src/README.md')
      .map(([name]) => name!)
      .sort(),
  ).toEqual(Object.keys(packageJson.dependencies).sort())
})

test('every script, file and heading that a page names exists', async () => {
  const headings = (markdown: string) =>
    [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    )
  let links = 0
  for (const [page, markdown] of pages) {
    for (const [, script] of markdown.matchAll(/npm run ([\w:-]+)/g))
      expect(packageJson.scripts).toHaveProperty(script!)
    for (const [, script] of markdown.matchAll(/\.\/(scripts\/[\w.-]*\w)/g)) await access(join(root, script!))
    for (const [, path] of markdown.matchAll(/`(test\/[\w./-]+\.ts)`/g)) await access(join(root, path!))
    const prose = markdown.replaceAll(/^```[\s\S]*?^```$/gm, '')
    for (const [, path, anchor] of prose.matchAll(/\]\((?!http)([^)#]*)(?:#([^)]+))?\)/g)) {
      const target = path ? join(dirname(page), path) : page
      await access(join(root, target))
      if (anchor)
        expect([target, headings(pages.get(target)!)]).toEqual([target, expect.arrayContaining([anchor])])
      links++
    }
  }
  expect(links).toBeGreaterThan(20)
})

const wordsIn = (text: string) => text.split(/\s+/).filter(Boolean).length

test('the front door is short, and so are the pages behind it', () => {
  expect(wordsIn(pages.get('README.md')!)).toBeLessThanOrEqual(600)
  const readmes = [...pages].filter(([path]) => path.endsWith('README.md'))
  expect(readmes.reduce((sum, [, page]) => sum + wordsIn(page), 0)).toBeLessThanOrEqual(43_000)
})

test('every page is found from the front door', () => {
  const found = new Set(['README.md'])
  for (const page of found)
    for (const [, path] of pages.get(page)!.matchAll(/\]\((?!http)([^)#]*README\.md)/g))
      found.add(join(dirname(page), path!))
  // GitHub has its own place for the others.
  const readmes = [...pages.keys()].filter(page => page.endsWith('README.md'))
  expect([...found].sort()).toEqual(readmes.sort())
})

/** What stands twice in a page: a sentence, a command right after itself, the first cell of a table. */
function findRepeats(markdown: string): string[] {
  const repeats: string[] = []
  const [sentences, terms] = [new Set<string>(), new Set<string>()]
  for (const paragraph of markdown.replaceAll(/^(```[\s\S]*?^```|\|.*)$/gm, '').split(/\n(?=\n|- )/))
    for (const sentence of paragraph
      .trim()
      .replaceAll(/\s+/g, ' ')
      .split(/(?<=[.:;]) /)) {
      if (sentence.length > 40 && sentences.has(sentence)) repeats.push(sentence)
      sentences.add(sentence)
    }
  let [block, command] = ['', '']
  for (const raw of markdown.split('\n')) {
    const line = raw.trim()
    const term = line.startsWith('|') ? line.split(/(?<!\\)\|/)[1]!.trim() : undefined
    if (line.startsWith('```')) block = block === '' ? line : ''
    else if (block !== '') {
      // What follows # in a line only explains it.
      const words = /sh$/.test(block) ? line.replace(/\s+#.*/, '') : ''
      if (words.length > 20 && words === command) repeats.push(line)
      command = words
    } else if (term !== undefined) {
      if (terms.has(term) && /\w/.test(term)) repeats.push(term)
      terms.add(term)
    }
    if (term === undefined) terms.clear()
  }
  return repeats
}

test('nothing stands twice in a page', async () => {
  const prose = 'A line of prose that is long enough to count.'
  const table = '| word | meaning |\n|---|---|\n| key | one |\n| door | two |\n| key | three |\n'
  const code = '```sh\nrm -rf one two three four # this\nrm -rf one two three four # that\n```\n'
  expect(findRepeats(`${prose}\n\n${prose}\n\n${table}${code}`)).toEqual([
    prose,
    'key',
    'rm -rf one two three four # that',
  ])
  const changes = await readFile(join(root, 'CHANGELOG.md'), 'utf8')
  const found = [...pages, ['CHANGELOG.md', changes] as const].flatMap(([page, markdown]) =>
    findRepeats(markdown).map(line => `${page}: ${line}`),
  )
  expect(found).toEqual([])
})

test('a command that writes a secret into a file makes one that others cannot read', async () => {
  const secret =
    /(\bu?rand(om)?\b|svc (token|key add)|\$\(cat .*(token|password|key)\)).*[^2&=]>\s*(?!\/dev\/null)[\w~/$.]/
  const isPrivate = /umask 077|mkdir -m 700|install -m 600/
  const sources = [...new Bun.Glob('{src,scripts}/**/*.{ts,yaml,sh}').scanSync({ cwd: root })]
  const texts = await Promise.all(
    sources.map(async path => [path, await readFile(join(root, path), 'utf8')] as const),
  )
  let found = 0
  for (const [path, text] of [...pages, ...texts]) {
    const lines = text.split('\n')
    for (const [nth, line] of lines.entries()) {
      if (!secret.test(line)) continue
      found++
      // In a page, the lines of one shell follow each other.
      const before = path.endsWith('.md') ? lines.slice(0, nth + 1).join('\n') : line
      expect([path, line, isPrivate.test(before)]).toEqual([path, line, true])
    }
  }
  expect(found).toBeGreaterThan(5)
})

test('every room of the house is on its map', async () => {
  const rooms = tableUnder('Rooms', 'src/README.md').flatMap(([names]) => names!.split(', '))
  const inSrc = (await readdir(join(root, 'src')))
    .filter(name => !name.endsWith('.md'))
    .map(name => name.replace(/\.ts$/, ''))
  expect(rooms.sort()).toEqual([...new Set(inSrc)].sort())
})
