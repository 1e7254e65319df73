/** The state of another process on this machine, as far as it can be seen. */
import { readFile } from 'node:fs/promises'
import process from 'node:process'
import { errorCodeOf } from './files.ts'

/** `stopped`: it exists but does not run, as after SIGSTOP or Ctrl-Z. */
export type ProcessState = 'running' | 'stopped' | 'gone'

/** Returns the state of a process. One in another container or on another machine looks gone. */
export async function processState(pid: number): Promise<ProcessState> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // A process of another user (EPERM) exists too.
    if (errorCodeOf(error) === 'ESRCH') return 'gone'
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')
  // The name is in brackets and may contain brackets itself.
  const state = stat.slice(stat.lastIndexOf(')') + 2)[0]
  if (state === 'Z' || state === 'X') return 'gone'
  return state === 'T' || state === 't' ? 'stopped' : 'running'
}
