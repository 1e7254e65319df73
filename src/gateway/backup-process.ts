/** Makes a backup in a process of its own: copying the store blocks the event loop for seconds. */
import type { Config } from '../config.ts'
import type { Backup } from '../model/backup.ts'
import { SvcError } from '../model/error.ts'
import { parseFields } from '../platform/fields.ts'
import { runProgram } from '../platform/process.ts'

/** Makes a backup. @throws SvcError `store_unavailable` with the reason */
export type MakeBackup = (path: string, signal: AbortSignal) => Promise<Backup>

/**
 * Returns a function that runs `svc backup`. Its command line names the file with the passphrase, and contains
 * no secret.
 *
 * @param command program and first arguments of svc
 */
export function createBackupProcess(
  command: readonly string[],
  { basePath, keepFreeBytes, mediaRoot, passphraseFile }: Config,
): MakeBackup {
  const [program = '', ...first] = command
  const options = [
    ...['--base-path', basePath, '--media-root', mediaRoot, '--keep-free', String(keepFreeBytes)],
    ...(passphraseFile === undefined ? [] : ['--passphrase-file', passphraseFile]),
    ...['--json', '--ends-with-stdin'],
  ]
  return async (path, signal) => {
    const args = [...first, 'backup', path, ...options]
    const { status, stdout, stderr } = await runProgram(program, args, { withinMs: 0, signal })
    signal.throwIfAborted()
    if (status === 0) return toBackup(parseLastLine(stdout))
    const { detail = stderr.trim().split('\n').at(-1), hint } = parseLastLine(stderr) ?? {}
    const ended = status === undefined ? 'was killed' : `ended with ${status}`
    throw new SvcError('store_unavailable', String(detail || `the process that makes the backup ${ended}`), {
      hint: String(hint ?? 'Look at the log of the service.'),
    })
  }
}

const toBackup = ({ created_at, size, took_ms, path }: Record<string, unknown> = {}): Backup => ({
  path: String(path),
  created_at: Number(created_at),
  size: Number(size),
  took_ms: Number(took_ms),
})

/** Returns the object in the last line; undefined if that is something else. */
const parseLastLine = (text: string) => parseFields(text.trim().split('\n').at(-1) ?? '')
