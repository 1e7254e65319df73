/**
 * Whether the schema `svc` of a database is the one that svc makes. Anything else in a database that comes from elsewhere may
 * run with each change, and undo it: a trigger, a rule, a function, a constraint.
 */
import { SvcError } from '../../model/error.ts'
import type { PgConnection } from '../../platform/postgres.ts'
import { constantSql, type Sql } from '../../platform/sql.ts'
import type { PgDatabase } from './database.ts'
import { steps } from './schema.ts'

const joined = (column: string): string =>
  `JOIN pg_class c ON c.oid = x.${column} AND c.relnamespace = to_regnamespace('svc')`
const ofSchema = `refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace('svc')`

/** Everything in the schema: what it is called, and how it is defined. */
const readParts: Sql = constantSql(`
  SELECT 'table ' || relname AS name, concat_ws(' ', relkind, relpersistence, relrowsecurity, relforcerowsecurity,
      relispartition, CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(oid) END) AS form
    FROM pg_class WHERE relnamespace = to_regnamespace('svc') AND relkind NOT IN ('i', 'I', 'S', 'c')
  UNION ALL SELECT 'sequence ' || c.relname, concat_ws(' ', x.seqtypid::regtype, seqincrement, seqmin, seqmax, seqcycle)
    FROM pg_sequence x ${joined('seqrelid')}
  UNION ALL SELECT format('column %s.%s', c.relname, attname), concat_ws(' ', format_type(atttypid, atttypmod), attnotnull,
      attidentity, attgenerated, attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute x ${joined('attrelid')} LEFT JOIN pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum
    WHERE attnum > 0 AND NOT attisdropped AND c.relkind NOT IN ('i', 'I', 'S')
  UNION ALL SELECT format('constraint %s of %s', conname, conrelid::regclass), concat_ws(' ', pg_get_constraintdef(x.oid),
      convalidated) FROM pg_constraint x WHERE connamespace = to_regnamespace('svc') OR EXISTS (SELECT FROM pg_class c
      WHERE c.oid IN (conrelid, confrelid) AND c.relnamespace = to_regnamespace('svc'))
  UNION ALL SELECT 'index ' || i.relname, concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid, indisready, indislive)
    FROM pg_index x ${joined('indrelid')} JOIN pg_class i ON i.oid = indexrelid
  UNION ALL SELECT format('trigger %s of %s', CASE WHEN tgisinternal THEN n.conname ELSE tgname END, c.relname),
      concat_ws(' ', CASE WHEN tgisinternal THEN format('%s %s', tgfoid::regproc, tgtype) ELSE pg_get_triggerdef(x.oid) END,
      tgenabled) FROM pg_trigger x ${joined('tgrelid')} LEFT JOIN pg_constraint n ON n.oid = tgconstraint
  UNION ALL SELECT format('rule %s of %s', rulename, c.relname), concat_ws(' ', pg_get_ruledef(x.oid), ev_enabled)
    FROM pg_rewrite x ${joined('ev_class')}
  UNION ALL SELECT format('policy %s of %s', polname, c.relname), '' FROM pg_policy x ${joined('polrelid')}
  UNION ALL SELECT format('table %s, which inherits from %s', inhrelid::regclass, c.relname), ''
    FROM pg_inherits x ${joined('inhparent')} WHERE c.relkind <> 'I'
  UNION ALL SELECT 'function ' || oid::regprocedure, CASE WHEN prokind = 'a' THEN 'aggregate' ELSE
      pg_get_functiondef(oid) END FROM pg_proc WHERE pronamespace = to_regnamespace('svc')
  UNION ALL SELECT pg_describe_object(classid, objid, 0), '' FROM pg_depend WHERE ${ofSchema}`)

/** Removes from the schema what svc makes some of. A role may own the schema, and not be allowed to make one. */
const clear = `DO $$ DECLARE one text; BEGIN
  FOREACH one IN ARRAY ARRAY(SELECT format('DROP %s IF EXISTS %s CASCADE', i.type, i.identity)
    FROM pg_depend, pg_identify_object(classid, objid, 0) i WHERE ${ofSchema} AND i.type IN ('table', 'view',
      'materialized view', 'foreign table', 'sequence', 'function', 'aggregate', 'procedure')
    ORDER BY i.type = 'sequence') LOOP EXECUTE one; END LOOP;
END $$`

interface Part {
  name: string
  form: string
}

/** Longest wait for an answer. */
const withinMs = 60_000

/**
 * Compares the schema with one that it makes in its place, in a transaction that is undone.
 *
 * @throws SvcError `store_unavailable` that names what differs, or for a role that does not own the tables
 */
export const rejectForeignSchema = (db: PgDatabase): Promise<void> =>
  db.guarded(async () => {
    // Its end undoes the transaction.
    using connection = await db.connect(withinMs)
    await connection.run(constantSql('BEGIN'))
    const different = await listForeignParts(connection)
    if (different.length > 0) throw foreignError(different.slice(0, 5))
  })

const foreignError = (parts: readonly string[]) =>
  new SvcError('store_unavailable', `the schema svc is not the one that svc makes: ${parts.join(', ')}`, {
    hint: 'Nothing was changed. Find out who changed it, and restore a dump from before.',
    details: { parts },
  })

/** Returns the names of the parts that differ. Replaces the schema: the caller undoes the transaction. */
export async function listForeignParts(connection: PgConnection): Promise<string[]> {
  const path = (schemas: string) => connection.run(constantSql(`SET LOCAL search_path = ${schemas}`))
  const read = async () => {
    // A function in the schema must not be taken for one of the server.
    await path('pg_catalog')
    return await connection.all<Part & Record<string, unknown>>(readParts)
  }
  const found = await read()
  await connection.run(constantSql(clear))
  // svc makes none of these kinds.
  const left = await read()
  await path('svc, pg_catalog')
  for (const step of steps) await connection.run(constantSql(step))
  return [...left.map(({ name }) => name), ...differencesOf(found, await read())]
}

/** Returns the names of parts that only one side has, or that differ. */
function differencesOf(found: readonly Part[], expected: readonly Part[]): string[] {
  const [ours, theirs] = [expected, found].map(
    parts => new Set(parts.map(({ form, name }) => JSON.stringify([name, form]))),
  ) as [Set<string>, Set<string>]
  const differing = [...ours.symmetricDifference(theirs)].map(text => (JSON.parse(text) as [string])[0])
  return [...new Set(differing)].sort()
}
