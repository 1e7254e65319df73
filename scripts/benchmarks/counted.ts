/**
 * Preloaded into the service: counts the statements that SQLite is given, and writes the number into the file that the
 * environment names whenever it gets SIGUSR2.
 */
import { Database } from 'bun:sqlite'
import { writeFileSync } from 'node:fs'
import process from 'node:process'

let statements = 0
const { prepare, run } = Database.prototype

Database.prototype.prepare = function (this: Database, ...given: Parameters<typeof prepare>) {
  const statement = prepare.apply(this, given)
  for (const name of ['get', 'all', 'iterate', 'values', 'run'] as const) {
    const own = statement[name]
    Object.defineProperty(statement, name, {
      value: (...params: never[]) => {
        statements++
        return Reflect.apply(own, statement, params)
      },
    })
  }
  return statement
} as typeof prepare

Database.prototype.run = function (this: Database, ...given: Parameters<typeof run>) {
  statements++
  return run.apply(this, given)
} as typeof run

process.on('SIGUSR2', () => writeFileSync(process.env.COUNTED_FILE ?? '', String(statements)))
