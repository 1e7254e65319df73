/** A process and those it started, for programs that run inside others: sudo, unshare, a container engine. */
import { readdirSync, readFileSync } from 'node:fs'
import process from 'node:process'

/** `pid` and all below it, the youngest generation first; `pid` alone where there is no /proc. */
export function family(pid: number): number[] {
  const children = childrenOf()
  const found = [pid]
  for (const parent of found) found.push(...(children.get(parent) ?? []))
  return found.reverse()
}

/** Those of the family that started nothing themselves: the program that a chain of wrappers ends in. */
export function innermost(pid: number): number[] {
  const children = childrenOf()
  return family(pid).filter(member => !children.has(member))
}

/** Signals one process; one that has ended already is no error. */
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
    // The name of the program stands in brackets before it, and may hold anything.
    const [, state, parent] = /.*\) (\S) (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, 'latin1')) ?? []
    return state === 'Z' ? undefined : Number(parent)
  } catch {
    return undefined // It has ended.
  }
}
