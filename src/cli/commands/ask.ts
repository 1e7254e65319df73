/** Declares `svc ask`. */
import { badArgument } from '../../model/error.ts'
import { ask, longestSeconds, shortestSeconds } from '../../operations/questions.ts'
import type { CommandSpec } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import { oneLine } from '../terminal.ts'
import { parseSpan } from '../typed-time.ts'

const spans = 'from 10s to 24h, such as 90s or 10m'

export const commands: readonly CommandSpec[] = [
  operationCommand(ask, {
    render: ({ choice = '' }) => [oneLine(choice)],
    addOptions: command =>
      command.option('--timeout <time>', `Time to answer, ${spans}, from when it was sent.`, '10m'),
    toInput(typed, command) {
      const { timeout } = command.opts<{ timeout: string }>()
      const ms = /^\d+$/.test(timeout) ? Number(timeout) * 1000 : parseSpan(timeout)
      const seconds = Math.round((ms ?? 0) / 1000)
      if (seconds < shortestSeconds || seconds > longestSeconds)
        throw badArgument('--timeout', `expected a time ${spans}`)
      return { ...typed, timeout: seconds }
    },
  }),
]
