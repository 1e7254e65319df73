/** What triggers in the database of a cluster note: each change of a lease, and of the node that polls an account. */
import type { Cluster } from '../../support/cluster.ts'
import type { LeaseChange, OwnerChange } from './polls.ts'

const schema = `
  CREATE SCHEMA notes;
  CREATE TABLE notes.lease (nth bigserial, at timestamptz DEFAULT clock_timestamp(), node text, name text, until timestamptz);
  CREATE TABLE notes.owner (nth bigserial, at timestamptz DEFAULT clock_timestamp(), bot text, node text);
  CREATE FUNCTION notes.lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    IF TG_OP = 'DELETE' THEN INSERT INTO notes.lease (node, name) VALUES (old.id, old.name);
    ELSE INSERT INTO notes.lease (node, name, until) VALUES (new.id, new.name, new.lease_until);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER note AFTER INSERT OR DELETE OR UPDATE OF lease_until ON svc.node FOR EACH ROW EXECUTE FUNCTION notes.lease();
  CREATE FUNCTION notes.owner() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO notes.owner (bot, node) VALUES (new.bot_id, new.node);
    RETURN NULL;
  END $$;
  CREATE TRIGGER note AFTER UPDATE OF node, bot_id ON svc.account FOR EACH ROW WHEN (new.bot_id IS NOT NULL)
    EXECUTE FUNCTION notes.owner();
  INSERT INTO notes.lease (node, name, until) SELECT id, name, lease_until FROM svc.node;`

export const takeNotes = ({ databaseName, postgres }: Cluster): Promise<string> =>
  postgres.psql(schema, databaseName)

/** Returns the rows of a query. */
export async function rowsOf<T>({ databaseName, postgres }: Cluster, query: string): Promise<T[]> {
  const text = await postgres.psql(
    `SELECT coalesce(json_agg(json_strip_nulls(row_to_json(r))), '[]') FROM (${query}) r`,
    databaseName,
  )
  return JSON.parse(text)
}

const ms = (column: string) => `(extract(epoch FROM ${column}) * 1000)::bigint AS ${column}`

export const readNotes = async (
  cluster: Cluster,
): Promise<{ leases: LeaseChange[]; owners: OwnerChange[] }> => ({
  leases: await rowsOf(
    cluster,
    `SELECT ${ms('at')}, node, name, ${ms('until')} FROM notes.lease ORDER BY notes.lease.at, nth`,
  ),
  owners: await rowsOf(
    cluster,
    `SELECT ${ms('at')}, bot, node FROM notes.owner ORDER BY notes.owner.at, nth`,
  ),
})
