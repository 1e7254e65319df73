/** Another process of this machine, as far as one may see it. */
import { readFile } from 'node:fs/promises'
import process from 'node:process'
import { errorCodeOf } from './files.ts'

/** `stopped`: it exists and gets no time, as after SIGSTOP or Ctrl-Z. */
export type ProcessState = 'running' | 'stopped' | 'gone'

/** How the process is; one of another container or machine looks gone. */
export async function processState(pid: number): Promise<ProcessState> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // Somebody else's process (EPERM) is there all the same.
    if (errorCodeOf(error) === 'ESRCH') return 'gone'
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '')
  // The name stands in brackets and may contain any.
  const state = stat.slice(stat.lastIndexOf(')') + 2)[0]
  if (state === 'Z' || state === 'X') return 'gone'
  return state === 'T' || state === 't' ? 'stopped' : 'running'
}
