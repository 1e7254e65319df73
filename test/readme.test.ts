/** The README is a test: its conversation is run line by line in a shell, its tables are compared with the code. */
import { expect, test } from 'bun:test'
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { optionTable } from '../src/config.ts'
import { tools } from '../src/tools/index.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const readme = await readFile(join(root, 'README.md'), 'utf8')
const packageJson = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const stepMs = 30_000

interface Step {
  line: number
  code: string
  /** What the README shows of the output; undefined when it shows nothing. */
  shown?: string
}

/** The ```bash blocks, each with the ```text block that follows it directly. */
function stepsOf(markdown: string): Step[] {
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
    return [{ line, code: block.text, ...(follows && { shown: next.text }) }]
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

test('every command of the README does what it shows, restart included', async () => {
  const home = await mkdtemp(join(tmpdir(), 'svc-readme-'))
  // As on a fresh machine; curl and svc see none of the settings of whoever runs the tests.
  const env = { PATH: `${home}/bin:${process.env.PATH ?? ''}`, HOME: home, LANG: 'C.UTF-8' }
  // What the README calls `svc`.
  await mkdir(join(home, 'bin'))
  await writeFile(join(home, 'bin/svc'), `#!/bin/sh\nexec "${root}scripts/svc" "$@"\n`, { mode: 0o755 })
  const shell = openShell(home, env)
  let service: Started | undefined
  let [port, phonePort] = ['0', '0']
  try {
    const steps = stepsOf(readme)
    expect(steps.length).toBeGreaterThan(10)
    for (const step of steps) {
      const here = (text: string) =>
        text
          .replaceAll('127.0.0.1:8000', `127.0.0.1:${port}`)
          .replaceAll('127.0.0.1:8001', `127.0.0.1:${phonePort}`)
      let output: string
      if (step.code.trim() === './scripts/start') {
        // Ctrl-C, as the README says.
        if (service) expect(await service.end('SIGINT')).toBe(0)
        service = await start({ ...env, SVC_PORT: port, SVC_SANDBOX_PORT: phonePort })
        ;[port, phonePort] = service.ports
        // What follows the addresses comes in the same breath, though not always in the same piece.
        const deadline = Date.now() + 2000
        while (!isShown(here(step.shown ?? ''), service.output()) && Date.now() < deadline)
          await Bun.sleep(10)
        output = service.output()
      } else {
        output = await shell.run(here(step.code))
      }
      const shown = here(step.shown ?? '')
      if (!isShown(shown, output)) {
        throw new Error(
          `README.md:${step.line} shows\n${shown}\nbut\n${step.code}\nprinted\n${output}\n${service?.errors() ?? ''}`,
        )
      }
    }
  } finally {
    shell.end()
    await service?.end('SIGKILL')
    await rm(home, { recursive: true, force: true })
  }
}, 120_000)

interface Started {
  /** Of the service and of the phone. */
  ports: [string, string]
  output(): string
  errors(): string
  end(signal: NodeJS.Signals): Promise<number>
}

/** Runs ./scripts/start until it is ready. */
async function start(env: Record<string, string>): Promise<Started> {
  const child = Bun.spawn([join(root, 'scripts/start')], { cwd: root, env, stdout: 'pipe', stderr: 'pipe' })
  let output = ''
  let errors = ''
  void (async () => {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) output += chunk
  })()
  void (async () => {
    for await (const chunk of child.stderr.pipeThrough(new TextDecoderStream())) errors += chunk
  })()
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return child.exited
  }
  const ready = /^listening on \S+:(\d+)\n[\s\S]*^phone on \S+:(\d+)\/phone\n/m
  const deadline = Date.now() + stepMs
  while (!ready.test(output)) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await end('SIGKILL')
      throw new Error(`./scripts/start did not get ready:\n${output}${errors}`)
    }
    await Bun.sleep(10)
  }
  const [, port = '', phonePort = ''] = ready.exec(output) ?? []
  return { ports: [port, phonePort], output: () => output, errors: () => errors, end }
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
      const late = setTimeout(() => child.kill('SIGKILL'), stepMs)
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
        clearTimeout(late)
      }
    },
    end: () => child.kill('SIGKILL'),
  }
}

/** Rows of the table under the heading, cells without backticks. */
function tableUnder(heading: string): string[][] {
  const section = readme.split(/^## /m).find(part => part.startsWith(`${heading}\n`))
  if (!section) throw new Error(`README.md has no section ${heading}`)
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
      option.shownDefault ?? (typeof option.default === 'string' ? option.default : ''),
      option.help,
    ])
  expect(tableUnder('Options of `svc openapi`')).toEqual(expected)
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
  expect(tableUnder('The nine tools').map(([name, _what, names]) => [name, names])).toEqual(
    expected as string[][],
  )
})

test('the table of dependencies is the one of package.json', () => {
  expect(
    tableUnder('Dependencies')
      .map(([name]) => name!)
      .sort(),
  ).toEqual(Object.keys(packageJson.dependencies).sort())
})

test('every script and file that the README names exists', async () => {
  for (const [, script] of readme.matchAll(/npm run ([\w:-]+)/g))
    expect(packageJson.scripts).toHaveProperty(script!)
  const files = [...readme.matchAll(/\.\/(scripts\/\w+)|\]\((?!http|#)([^)]+)\)/g)].map(
    match => match[1] ?? match[2]!,
  )
  expect(files.length).toBeGreaterThan(3)
  for (const file of files) await access(join(root, file))
})
