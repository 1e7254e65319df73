/** Declares `svc nodes`: lists the nodes of a cluster, and who polls what. */
import type { NodeInfo, Nodes, Replication } from '../../model/nodes.ts'
import { listNodes } from '../../operations/service.ts'
import { formatDuration, formatList, formatLocalTime } from '../../platform/format.ts'
import type { Column } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, showTable } from '../show.ts'
import { oneLine } from '../terminal.ts'

export const commands = [operationCommand(listNodes, { createEmpty: () => ({ nodes: [] }), render })]

const limit = (most: number) => (most === 0 ? 'all' : String(most))

const columns: readonly Column<NodeInfo>[] = [
  ['NODE', 'name'],
  ['STATE', ({ lease_left_ms, polls }) => (lease_left_ms <= 0 ? 'gone' : polls ? 'polls' : 'follows')],
  ['SINCE', ({ since }) => formatLocalTime(since)],
  ['VERSION', 'version'],
  ['KEEPS', ({ max_age_days, max_count }) => `${limit(max_age_days)} days, ${limit(max_count)} messages`],
  ['ADDRESS', ({ url = '–' }) => oneLine(url)],
  ['ACCOUNTS', 'accounts'],
  ['SESSIONS', ({ sessions }) => formatList(sessions.map(name => oneLine(name)))],
]

function render({ nodes, replication }: Nodes): CommandOutput {
  if (!replication) return showTable(nodes, 'the store is in a data directory: there are no nodes', columns)
  const { text = '', note } = showTable(nodes, 'no node runs now', columns)
  return { text: `${text}${formatReplication(replication)}`, note }
}

function formatReplication({ standbys, synchronous_standby_names: names }: Replication): string {
  const listed = standbys.map(
    ({ lag_ms, name, sync_state = 'state unknown' }) =>
      `${oneLine(name)} (${sync_state}${lag_ms === undefined ? '' : `, ${formatDuration(lag_ms)} behind`})`,
  )
  const waits = names === '' ? 'commits wait for no standby' : `commits wait for ${oneLine(names)}`
  return `\nreplication  ${[waits, ...listed].join('; ')}\n`
}
