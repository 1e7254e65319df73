/** Session files in a real folder under a real lock. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FileLock, openLock } from '../../../../src/platform/lock.ts'
import { createLog } from '../../../../src/platform/log.ts'
import type { SessionRows } from '../../../../src/storage/sqlite/state/sessions.ts'
import { type FileState, openState } from '../../../../src/storage/sqlite/state/state.ts'
import { startProcess } from '../support.ts'

export interface TestState extends FileState, AsyncDisposable {
  readonly dir: string
  readonly lock: FileLock
  readonly lines: string[]
}

export async function openTestState(options: { dir?: string; rows?: SessionRows } = {}): Promise<TestState> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'svc-state-')))
  const lock = await openLock(join(dir, '.data.lock'))
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  return {
    ...openState({ dir, lock, log, ...(options.rows && { rows: options.rows }) }),
    dir,
    lock,
    lines,
    async [Symbol.asyncDispose]() {
      await lock.close()
      if (!options.dir) await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Runs `body` in another process, with `sessions`, `contexts`, `commitBatch` of `dir` at hand. */
export const inOther = (dir: string, body: string) =>
  startProcess(
    {
      openState: 'storage/sqlite/state/state.ts',
      openLock: 'platform/lock.ts',
      silentLog: 'platform/log.ts',
    },
    `const dir = ${JSON.stringify(dir)}
    const lock = await openLock(dir + '/.data.lock')
    const { sessions, contexts, commitBatch } = openState({ dir, lock, log: silentLog })
    ${body}
    await lock.close()`,
  )
