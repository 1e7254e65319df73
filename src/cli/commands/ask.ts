/** Declares `svc ask`. */
import { badArgument } from '../../model/error.ts'
import { ask } from '../../operations/questions.ts'
import type { CommandSpec } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import { oneLine } from '../terminal.ts'
import { parseSpan } from '../typed-time.ts'

export const commands: readonly CommandSpec[] = [
  operationCommand(ask, {
    render: ({ choice = '' }) => ({ text: `${oneLine(choice)}\n` }),
    addOptions: command =>
      command.option('--timeout <time>', 'Time to answer, such as 90s or 10m, from when it was sent.', '10m'),
    toInput(typed, command) {
      const { timeout } = command.opts<{ timeout: string }>()
      const ms = /^\d+$/.test(timeout) ? Number(timeout) * 1000 : parseSpan(timeout)
      if (ms === undefined) throw badArgument('--timeout', 'expected a time such as 90s or 10m')
      return { ...typed, timeout: Math.round(ms / 1000) }
    },
  }),
]
