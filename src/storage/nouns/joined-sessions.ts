/** What happens to rows when a session gets the name of sessions that were logged out: statements of the rename. */
import { constantSql, type Sql, sql } from '../../platform/sql.ts'

/**
 * Returns the statements by which what waits in the others, their conversations with agents, and the names of their users
 * belong to the renamed session.
 *
 * @param own its key
 * @param isOther the condition that a key is of one of the others
 */
export function joinSessions(own: Sql, isOther: (key: Sql) => Sql): Sql[] {
  const ofOther = isOther(sql`other.session`)
  const ownLane = sql`own.id FROM outbox_lane other
    JOIN outbox_lane own ON own.session = ${own} AND own.peer = other.peer WHERE ${ofOther}`
  return [
    sql`UPDATE outbox_lane SET session = ${own} WHERE id IN (SELECT max(other.id) FROM outbox_lane other
      WHERE ${ofOther} AND NOT EXISTS (SELECT 1 FROM outbox_lane l WHERE l.session = ${own} AND l.peer = other.peer)
      GROUP BY other.peer)`,
    ...['outbox', 'outbox_part'].map(
      table => sql`UPDATE ${constantSql(table)} AS o SET lane = ${ownLane} AND o.lane = other.id`,
    ),

    sql`UPDATE agent_conversation SET session = ${own} WHERE id IN (SELECT max(other.id) FROM agent_conversation other
      WHERE ${ofOther} AND NOT EXISTS (SELECT 1 FROM agent_conversation c
        WHERE c.agent = other.agent AND c.session = ${own} AND c.peer = other.peer)
      GROUP BY other.agent, other.peer)`,
    sql`UPDATE agent_turn AS t SET conversation = own.id FROM agent_conversation other
      JOIN agent_conversation own ON own.agent = other.agent AND own.session = ${own} AND own.peer = other.peer
      WHERE ${ofOther} AND t.conversation = other.id`,
    sql`DELETE FROM agent_conversation WHERE ${isOther(sql`session`)}`,
    ...['agent_time', 'relay_client'].map(
      table => sql`UPDATE ${constantSql(table)} SET session = ${own} WHERE ${isOther(sql`session`)}`,
    ),

    // A name that both have for a user, or for two of them, stays as the renamed session has it.
    sql`DELETE FROM user_name WHERE ${isOther(sql`session`)} AND EXISTS (SELECT 1 FROM user_name own
      WHERE own.session = ${own} AND (own.peer = user_name.peer OR own.folded = user_name.folded))`,
    sql`INSERT INTO user_name (session, peer, name, folded) SELECT other.key, n.peer, n.name, n.folded
      FROM user_name n JOIN session other ON ${isOther(sql`other.key`)} WHERE n.session = ${own}`,
    sql`INSERT INTO user_name (session, peer, name, folded) SELECT ${own}, n.peer, n.name, n.folded FROM user_name n
      WHERE n.session = (SELECT max(other.session) FROM user_name other WHERE other.peer = n.peer AND ${ofOther})
      ON CONFLICT (session, peer) DO NOTHING`,
  ]
}
