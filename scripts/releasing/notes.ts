/** What is told about a release: what changed, how to have it, what the files are, and what was tried with them. */
import type { ReleasedFile } from '../build/sums.ts'

export interface Tried {
  what: string
  /** How it went, or why it was not run. */
  how: string
  ran: boolean
}

export interface NotesOptions {
  version: string
  /** What the changelog says. */
  changes: string
  files: readonly ReleasedFile[]
  tried: readonly Tried[]
  /** Where the files can be had. */
  url?: string | undefined
}

const size = (bytes: number) =>
  bytes < 100_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`

const code = (...lines: string[]) => ['```sh', ...lines, '```'].join('\n')
const paragraphs = (...parts: (string | undefined)[]) => parts.filter(part => part !== undefined).join('\n\n')

/** @returns Markdown; the version is its first line, as in the message of a tag */
export function notesOf(options: NotesOptions): string {
  const { version, changes, files, tried } = options
  const list = (ran: boolean) => {
    const lines = tried.filter(one => one.ran === ran).map(({ what, how }) => `- ${what}: ${how}`)
    return lines.length > 0 ? lines.join('\n') : '- nothing'
  }
  const rows = files.map(({ name, bytes, sha256 }) => `| ${name} | ${size(bytes)} | \`${sha256}\` |`)
  const text = paragraphs(
    `svc ${version}`,
    changes,
    '## Install',
    installation(options),
    '## Files',
    ['| file | size | SHA-256 |', '|---|---|---|', ...rows].join('\n'),
    `The sums are in \`SHA256SUMS\` too: \`sha256sum --check --ignore-missing SHA256SUMS\`. The same binaries come out of
\`git checkout v${version} && npm run build -- --all\`.`,
    '## What was tried',
    'With these very files, before anybody had them:',
    list(true),
    'Not run:',
    list(false),
  )
  return `${text}\n`
}

function installation({ version, files, url }: NotesOptions): string {
  const has = (name: string) => files.some(file => file.name === name)
  const at = (name: string) => (url === undefined ? name : `${url.replace(/\/+$/, '')}/${name}`)
  const inFolder = url === undefined ? ', in the folder with these files' : ''
  const binaries = files.some(({ name }) => /^svc-(linux|darwin)-/.test(name)) && has('install.sh')
  const packed = `svc-${version}.tgz`
  return paragraphs(
    binaries
      ? paragraphs(
          `One file for Linux and macOS, checked and put on the PATH${inFolder}:`,
          code(url === undefined ? 'sh install.sh' : `curl -fsSL ${at('install.sh')} | sh`),
        )
      : undefined,
    has('svc-windows-x64.exe')
      ? `On Windows: \`${at('svc-windows-x64.exe')}\` is the program; nothing else is needed.`
      : undefined,
    has('svc.mjs')
      ? paragraphs(
          'With [Deno](https://deno.com) alone:',
          code(`deno run -A ${at('svc.mjs')} openapi --sandbox`),
        )
      : undefined,
    has(packed)
      ? paragraphs(
          'In a program that [Bun](https://bun.sh) runs:',
          code(`bun add ${url === undefined ? `./${packed}` : at(packed)}`),
        )
      : undefined,
  )
}
