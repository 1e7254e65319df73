/** Declares `svc export`: writes stored messages into a file, or to stdout. */
import { randomBytes } from 'node:crypto'
import { open, rename } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import type { Config } from '../../config.ts'
import { badArgument } from '../../model/error.ts'
import { exportMessages } from '../../operations/export.ts'
import { diskError, keepStream } from '../../platform/file-stream.ts'
import { errorCodeOf, removeQuietly, statOf, syncDir } from '../../platform/files.ts'
import { formatBytes } from '../../platform/format.ts'
import { FreeSpace } from '../../platform/free-space.ts'
import type { Command } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import { isJson, writeResult } from '../print.ts'
import { progressBar } from '../progress.ts'
import { formatNote } from '../show.ts'
import { oneLine } from '../terminal.ts'
import type { OperationRequest } from '../view.ts'

/** Options of the command that are not the operation's. */
interface OwnOptions {
  output?: string
  force?: boolean
}

export const commands = [
  operationCommand(exportMessages, {
    jsonHelp:
      'Print the path and size of the file as one JSON value. On stdout the messages are JSON lines anyway.',
    addOptions: command =>
      command
        .option('-o, --output <file>', 'File to write. Default: -, which is stdout.')
        .option('--force', 'Replace the file if it exists.'),
    toInput: (typed, command) => ({ ...typed, format: typed.format ?? formatOf(command) }),
    longRun: { when: () => true, run: writeExport },
    render: () => ({}),
  }),
]

/** @throws SvcError `invalid_arguments` for an ending that names another format */
function formatOf(command: Command): 'html' | undefined {
  const { output = '-' } = command.opts<OwnOptions>()
  const ending = extname(output)
  if (/^\.html?$/i.test(ending)) return 'html'
  if (/^(\.jsonl|\.ndjson)?$/i.test(ending)) return undefined
  throw badArgument('--output', `expected a name that ends with .jsonl or .html, got ${ending}`, {
    hint: 'Name the file so, or say what it is with --format.',
  })
}

async function writeExport({ command, line, config, input }: OperationRequest): Promise<void> {
  const { commandCall, createAsk, openForCommand } = await import('../open.ts')
  const { output = '-' } = command.opts<OwnOptions>()
  if (output !== '-') await checkTarget(command)
  using call = commandCall(command.io)
  try {
    await using opened = await openForCommand(config, command.io)
    const { stream } = await createAsk(opened, call)(exportMessages, exportMessages.parse(input))
    if (output === '-') await print(stream, command)
    else await save(stream, command, { config, signal: call.signal })
  } catch (error) {
    // You know that you pressed Ctrl-C, so no error is printed.
    if (call.stopSignal === undefined) throw error
    line.stopSignal = call.stopSignal
  }
}

async function print(stream: ReadableStream<Uint8Array>, { io }: Command): Promise<void> {
  const decoder = new TextDecoder()
  for await (const bytes of stream) await io.out.write(decoder.decode(bytes, { stream: true }))
}

/** Writes a file under a name of its own, and renames it when it is whole. */
async function save(
  stream: ReadableStream<Uint8Array>,
  command: Command,
  { config, signal }: { config: Config; signal: AbortSignal },
): Promise<void> {
  const { output = '', force } = command.opts<OwnOptions>()
  const path = resolve(output)
  const partial = `${path}.${randomBytes(6).toString('hex')}.tmp`
  const bar = progressBar(command.io)
  try {
    const { size } = await keepStream(stream, partial, {
      digests: [],
      space: new FreeSpace(config.basePath, config.keepFreeBytes),
      signal,
      durable: true,
      progress: done => bar?.step({ what: `export ${output}`, done }),
    })
    if (!force) await reserve(path, output)
    await rename(partial, path)
    await syncDir(dirname(path))
    bar?.clear()
    await writeResult(command, { path, size }, `${oneLine(path)}\n`)
    // cron mails what a job prints.
    if (!isJson(command) && command.io.err.isTerminal)
      await command.io.err.write(formatNote(`saved ${formatBytes(size)}`))
  } catch (error) {
    bar?.clear()
    await removeQuietly(partial)
    throw diskError(error)
  }
}

/** @throws SvcError `invalid_arguments` if the file cannot be made there, or exists */
async function checkTarget(command: Command): Promise<void> {
  const { output = '', force } = command.opts<OwnOptions>()
  const folder = dirname(resolve(output))
  if (!(await statOf(folder))?.isDirectory())
    throw badArgument('--output', `there is no folder ${JSON.stringify(folder)}`)
  const found = await statOf(resolve(output))
  if (found?.isDirectory()) throw badArgument('--output', `${JSON.stringify(output)} is a folder`)
  if (found && !force) throw existsError(output)
}

/** Makes an empty file of that name, which nobody else can then make. */
async function reserve(path: string, typed: string): Promise<void> {
  const placeholder = await open(path, 'wx', 0o600).catch(error => {
    throw errorCodeOf(error) === 'EEXIST' ? existsError(typed) : error
  })
  await placeholder.close()
}

const existsError = (typed: string) =>
  badArgument('--output', `${JSON.stringify(typed)} exists already`, {
    hint: 'Name another file, or give --force to replace it.',
  })
