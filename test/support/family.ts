/** Process trees, for programs that run inside others: sudo, unshare, a container engine. */
import { readdirSync, readFileSync } from 'node:fs'
import process from 'node:process'

/** Returns `pid` and all its descendants, the youngest generation first; only `pid` without /proc. */
export function family(pid: number): number[] {
  const children = childrenOf()
  const found = [pid]
  for (const parent of found) found.push(...(children.get(parent) ?? []))
  return found.reverse()
}

/** Returns the processes of the tree without children: the program inside a chain of wrappers. */
export function innermost(pid: number): number[] {
  const children = childrenOf()
  return family(pid).filter(member => !children.has(member))
}

/** Whether a process runs: one that has ended is none, also while its parent has not noticed. */
export const isRunning = (pid: number): boolean => parentOf(String(pid)) !== undefined

/** Signals a process. A process that has already ended is no error. */
export function end(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function childrenOf(): Map<number, number[]> {
  const children = new Map<number, number[]>()
  for (const name of process.platform === 'linux' ? readdirSync('/proc') : []) {
    const parent = /^\d+$/.test(name) ? parentOf(name) : undefined
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  return children
}

function parentOf(name: string): number | undefined {
  try {
    // The program's name precedes it in brackets, and may contain any characters.
    const [, state, parent] = /.*\) (\S) (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, 'latin1')) ?? []
    return state === 'Z' ? undefined : Number(parent)
  } catch {
    return undefined // The process has ended.
  }
}
