/** Writes the notes of a release: what changed, how to install it, its files, and how they were tested. */
import type { ReleasedFile } from '../build/sums.ts'

export interface TrialResult {
  what: string
  /** The result, or why it was not run. */
  how: string
  ran: boolean
}

export interface NotesOptions {
  version: string
  /** The text of the changelog. */
  changes: string
  files: readonly ReleasedFile[]
  tried: readonly TrialResult[]
  /** The address of the files. */
  url?: string | undefined
  isSigned?: boolean
}

const formatSize = (bytes: number) =>
  bytes < 100_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`

const formatCode = (...lines: string[]) => ['```sh', ...lines, '```'].join('\n')
const joinParagraphs = (...parts: (string | undefined)[]) =>
  parts.filter(part => part !== undefined).join('\n\n')

/** @returns Markdown. The first line is the version, as in the message of a tag */
export function notesOf(options: NotesOptions): string {
  const { version, changes, files, isSigned = false, tried } = options
  const list = (ran: boolean) => {
    const lines = tried.filter(result => result.ran === ran).map(({ what, how }) => `- ${what}: ${how}`)
    return lines.length > 0 ? lines.join('\n') : '- nothing'
  }
  const rows = files.map(({ name, bytes, sha256 }) => `| ${name} | ${formatSize(bytes)} | \`${sha256}\` |`)
  const text = joinParagraphs(
    `svc ${version}`,
    changes,
    '## Install',
    describeInstallation(options),
    '## Files',
    ['| file | size | SHA-256 |', '|---|---|---|', ...rows].join('\n'),
    `The sums are also in \`SHA256SUMS\`: \`sha256sum --check --ignore-missing SHA256SUMS\`. ${
      isSigned
        ? 'They are signed: `SHA256SUMS.sig`.'
        : 'They are **not signed**, so they only show that a file arrived whole.'
    } How to check that, what is inside, and to make the same files again from the tag v${version}:
\`scripts/releasing/README.md\` in the sources.`,
    '## What was tested',
    'With these very files, before the release:',
    list(true),
    'Not run:',
    list(false),
  )
  return `${text}\n`
}

function describeInstallation({ version, files, url }: NotesOptions): string {
  const has = (name: string) => files.some(file => file.name === name)
  const at = (name: string) => (url === undefined ? name : `${url.replace(/\/+$/, '')}/${name}`)
  const inFolder = url === undefined ? ', in the folder with these files' : ''
  const binaries = files.some(({ name }) => /^svc-(linux|darwin)-/.test(name)) && has('install.sh')
  const packed = `svc-${version}.tgz`
  return joinParagraphs(
    binaries
      ? joinParagraphs(
          `One file for Linux and macOS, checked and put on the PATH${inFolder}:`,
          formatCode(url === undefined ? 'sh install.sh' : `curl -fsSL ${at('install.sh')} | sh`),
        )
      : undefined,
    has('svc-windows-x64.exe')
      ? `On Windows: \`${at('svc-windows-x64.exe')}\` is the program; nothing else is needed.`
      : undefined,
    has('svc.mjs')
      ? joinParagraphs(
          'With [Deno](https://deno.com) alone:',
          formatCode(`deno run -A ${at('svc.mjs')} openapi --sandbox`),
        )
      : undefined,
    has(packed)
      ? joinParagraphs(
          'In a program that [Bun](https://bun.sh) runs:',
          formatCode(`bun add ${url === undefined ? `./${packed}` : at(packed)}`),
        )
      : undefined,
  )
}
