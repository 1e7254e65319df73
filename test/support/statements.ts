/** Counts the SQL statements that run in this process. */
import { Database } from 'bun:sqlite'

export interface StatementCount extends Disposable {
  /** Without those that begin and end transactions. */
  statements: number
  /** Transactions that were committed. Each waits for the disk, unless it is a relaxed one. */
  commits: number
}

/** Counts the statements of all databases that are opened from now on. @param except statements that do not count */
export function countStatements(except?: RegExp): StatementCount {
  const prepare = Database.prototype.prepare
  const count = {
    statements: 0,
    commits: 0,
    [Symbol.dispose]() {
      Database.prototype.prepare = prepare
    },
  }
  Database.prototype.prepare = function (this: Database, ...args: Parameters<typeof prepare>) {
    const statement = prepare.apply(this, args)
    const [word] = /^\w+/.exec(args[0]) ?? []
    if (word === 'BEGIN' || word === 'SAVEPOINT' || word === 'RELEASE' || except?.test(args[0]))
      return statement
    const counted = word === 'COMMIT' ? 'commits' : 'statements'
    for (const method of ['all', 'get', 'run', 'iterate'] as const) {
      const real = statement[method] as (...values: unknown[]) => unknown
      Object.defineProperty(statement, method, {
        value(...values: unknown[]) {
          count[counted]++
          return real.apply(statement, values)
        },
      })
    }
    return statement
  } as typeof prepare
  return count
}
