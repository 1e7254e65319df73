/** The nodes that share a store, and the state of its database, in the public form. */
import { type Static, Type } from '@sinclair/typebox'
import { flag, integer, optional, text } from './shapes.ts'

export const NodeInfo = Type.Object(
  {
    id: text('Changes when the process starts again.'),
    name: text('Machine and process, as in `svc-1:4711`.'),
    version: text('Version of svc that it runs.'),
    url: optional.text('Where it answers; absent until it listens.'),
    polls: flag('Whether it takes part in polling.'),
    since: integer('When it joined, in Unix milliseconds by the clock of the database.'),
    lease_left_ms: integer(
      'Time until its lease ends; 0 or less: it died, or cannot reach the database. Others poll its sessions then.',
    ),
    accounts: integer('Number of sessions that it polls.'),
    sessions: Type.Array(Type.String(), { description: 'The first 100 sessions that it polls, by name.' }),
    max_age_days: integer(
      'Messages that are older are removed, in days; 0: no limit. The largest limit of the nodes counts.',
    ),
    max_count: integer('So many messages are kept; 0: no limit. The largest limit of the nodes counts.'),
    is_this: flag('Whether it is the process that answers this call.'),
  },
  { description: 'A process that shares the store.' },
)
export type NodeInfo = Static<typeof NodeInfo>

export const StandbyInfo = Type.Object(
  {
    name: Type.String(),
    state: optional.text('Absent if the role of svc may not read it.'),
    sync_state: optional.oneOf(
      ['async', 'sync', 'quorum', 'potential'],
      'sync and quorum: commits wait for it.',
    ),
    lag_ms: optional.integer(
      'How long a commit takes until it is durable there; absent while nothing is written.',
    ),
  },
  { description: 'A standby of the database.' },
)
export type StandbyInfo = Static<typeof StandbyInfo>

export const Replication = Type.Object(
  {
    synchronous_standby_names: text(
      'Setting of the database: commits wait for these standbys. Empty: a failover may lose what was confirmed.',
    ),
    timeline: optional.text('History of the server; it changes when a standby takes over.'),
    standbys: Type.Array(StandbyInfo),
    can_read: flag('Whether the role of svc may read the state of standbys, as members of pg_monitor may.'),
    unconfirmed_rows: integer(
      'Rows that are stored, and not yet known to be durable. Readers wait for them.',
    ),
  },
  { description: 'How the database keeps copies of what is stored.' },
)
export type Replication = Static<typeof Replication>

export const Nodes = Type.Object({
  nodes: Type.Array(NodeInfo, {
    description: 'The process that answers first. Empty if the store is in a data directory.',
  }),
  replication: optional(Replication),
})
export type Nodes = Static<typeof Nodes>
