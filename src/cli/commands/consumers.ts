/** Declares `svc consumers`: lists the readers of messages, and removes those that are gone. */
import { listConsumers, removeConsumer } from '../../operations/consumers.ts'
import { operationCommand } from '../operation-command.ts'
import { tableView } from '../show.ts'
import { oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(
    listConsumers,
    tableView('nobody has read messages yet', [
      ['CONSUMER', 'name'],
      ['UNREAD', 'unread'],
      ['LAST READ', 'last_read_at'],
      ['MOVED BY', ({ acknowledges }) => (acknowledges ? 'ack' : 'reading')],
      ['KEY', 'key_name'],
    ]),
  ),
  operationCommand(removeConsumer, {
    changeMade: 'removed',
    render: ({ name }) => [`removed: ${oneLine(name)}`],
  }),
]
