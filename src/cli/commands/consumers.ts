/** Declares `svc consumers`: lists the readers of messages, and removes those that are gone. */
import type { ConsumerInfo } from '../../model/consumer.ts'
import { listConsumers, removeConsumer } from '../../operations/consumers.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { formatNote } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

const columns: readonly Column<ConsumerInfo>[] = [
  ['CONSUMER', ({ name }) => oneLine(name)],
  ['UNREAD', ({ unread }) => String(unread)],
  ['LAST READ', ({ last_read_at }) => formatLocalTime(last_read_at)],
  ['MOVED BY', ({ acknowledges }) => (acknowledges ? 'ack' : 'reading')],
  ['KEY', ({ key_name = '' }) => oneLine(key_name)],
]

export const commands = [
  operationCommand(listConsumers, {
    createEmpty: () => [],
    render: all =>
      all.length > 0
        ? { text: formatTable(all, columns, colours.bold) }
        : { note: formatNote('nobody has read messages yet') },
  }),
  operationCommand(removeConsumer, {
    changeMade: 'removed',
    render: ({ name }) => ({ text: `removed: ${oneLine(name)}\n` }),
  }),
]
