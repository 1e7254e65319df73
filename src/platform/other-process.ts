/** Another process of this machine, as far as one may see it. */
import { readFile, readlink } from 'node:fs/promises'
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

/** Its arguments, the program's name included; undefined where they cannot be seen. */
export async function processArguments(pid: number): Promise<string[] | undefined> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return text === '' ? undefined : text.split('\0')
}

/** Files and sockets it may have open at a time; undefined where that cannot be seen. */
export async function openFilesLimit(pid: number): Promise<number | undefined> {
  const text = await readFile(`/proc/${pid}/limits`, 'latin1').catch(() => '')
  const soft = /^Max open files\s+(\d+)/m.exec(text)?.[1]
  return soft === undefined ? undefined : Number(soft)
}

/** Whether its program was replaced or removed since it started; false where that cannot be seen. */
export const runsReplacedProgram = async (pid: number): Promise<boolean> =>
  (await readlink(`/proc/${pid}/exe`).catch(() => '')).endsWith(' (deleted)')
