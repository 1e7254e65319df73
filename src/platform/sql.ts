/** Statements, composed from templates, so that a value never becomes SQL. Both engines run them. */

/** NULL is undefined, in rows and in parameters. An array becomes an array of PostgreSQL. */
export type SqlParameter =
  | string
  | number
  | boolean
  | Uint8Array
  | undefined
  | null
  | readonly (string | number)[]

/** A statement, or a part of one. Made by `sql`. */
export class Sql {
  readonly texts: readonly string[]
  readonly values: readonly SqlParameter[]
  readonly isPrepared: boolean

  constructor(texts: readonly string[], values: readonly SqlParameter[], isPrepared = false) {
    this.texts = texts
    this.values = values
    this.isPrepared = isPrepared
  }
}

/**
 * Makes a statement one that each connection prepares once, so that the server keeps its plan: for statements that run for
 * each message, whose plan does not depend on the values, and of whose text there are few versions. PgBouncer passes them
 * on in its transaction mode since version 1.21, with `max_prepared_statements`; without that they run unprepared.
 */
export const prepared = ({ texts, values }: Sql): Sql => new Sql(texts, values, true)

/** Composes a statement: values become parameters, and parts made by `sql` become part of its text. */
export function sql(strings: TemplateStringsArray, ...values: (SqlParameter | Sql)[]): Sql {
  const texts = [strings[0]!]
  const params: SqlParameter[] = []
  for (const [nth, value] of values.entries()) {
    const rest = strings[nth + 1]!
    if (value instanceof Sql) {
      texts[texts.length - 1] += value.texts[0]!
      texts.push(...value.texts.slice(1))
      params.push(...value.values)
      texts[texts.length - 1] += rest
    } else {
      params.push(value)
      texts.push(rest)
    }
  }
  return new Sql(texts, params)
}

/** A part of a statement whose text is a constant of the program, such as a list of columns. */
export const constantSql = (text: string): Sql => new Sql([text], [])

/** An empty part of a statement. */
export const noSql: Sql = constantSql('')

/** Joins parts of a statement. */
export const joinSql = (parts: readonly Sql[], separator = ', '): Sql =>
  parts.reduce((all, part, nth) => (nth === 0 ? part : sql`${all}${constantSql(separator)}${part}`), noSql)

type Columns = Readonly<Record<string, SqlParameter | Sql>>

/** The end of an INSERT of a row. The names of its columns are constants of the program. */
export const insertedColumns = (row: Columns): Sql =>
  sql`(${constantSql(Object.keys(row).join(', '))})
    VALUES (${joinSql(Object.values(row).map(value => sql`${value}`))})`

/** What follows SET in an UPDATE. */
export const changedColumns = (row: Columns): Sql =>
  joinSql(Object.entries(row).map(([name, value]) => sql`${constantSql(name)} = ${value}`))
