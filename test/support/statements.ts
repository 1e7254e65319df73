/** Counts the SQL statements that run in the process of the test. */
import { Database } from 'bun:sqlite'

export interface StatementCount extends Disposable {
  statements: number
}

/** Counts the statements of all databases that are opened from now on. */
export function countStatements(): StatementCount {
  const prepare = Database.prototype.prepare
  const count = {
    statements: 0,
    [Symbol.dispose]() {
      Database.prototype.prepare = prepare
    },
  }
  Database.prototype.prepare = function (this: Database, ...args: Parameters<typeof prepare>) {
    const statement = prepare.apply(this, args)
    for (const method of ['all', 'get', 'run', 'iterate'] as const) {
      const real = statement[method] as (...values: unknown[]) => unknown
      Object.defineProperty(statement, method, {
        value(...values: unknown[]) {
          count.statements++
          return real.apply(statement, values)
        },
      })
    }
    return statement
  } as typeof prepare
  return count
}
