/** Declares the commands about what agents in front of WeChat do: `svc agent list`, `turns` and so on. */
import type { AgentConversation, AgentQuestion, AgentTurn } from '../../model/agent.ts'
import * as agents from '../../operations/agents.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, formatNote } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(agents.listAgents, { createEmpty: () => [], render: formatConversations }),
  operationCommand(agents.listAgentTurns, { createEmpty: () => [], render: formatTurns }),
  operationCommand(agents.stopAgentTurn, {
    hasFailed: ({ state, stopping = false }) => !stopping && state !== 'stopped',
    changeMade: 'stopped',
    render: ({ id, state, stopping }) => ({
      text: stopping
        ? `stopping: ${id}\n`
        : state === 'stopped'
          ? `stopped: ${id}\n`
          : `it has ended: ${state}\n`,
    }),
  }),
  operationCommand(agents.injectAgentTurn, {
    changeMade: 'added',
    render: ({ agent, id, user_id }) => ({
      text: `added: turn ${id} for ${oneLine(user_id)}; it waits until the agent ${oneLine(agent)} runs\n`,
    }),
  }),
  operationCommand(agents.listAgentQuestions, { createEmpty: () => [], render: formatQuestions }),
  operationCommand(agents.answerAgentQuestion, {
    changeMade: 'answered',
    render: ({ answer, id }) => ({ text: `answered: ${id}, ${oneLine(answer ?? '')}\n` }),
  }),
]

function formatConversations(all: readonly AgentConversation[]): CommandOutput {
  if (all.length === 0) return { note: formatNote('nobody talks with an agent; see svc agent --help') }
  const columns: Column<AgentConversation>[] = [
    ['AGENT', ({ agent }) => oneLine(agent)],
    ['SESSION', ({ session }) => oneLine(session)],
    ['USER', ({ user_id, user_name = user_id }) => oneLine(user_name)],
    ['STATE', ({ state }) => state],
    ['TURNS', ({ turns }) => String(turns)],
    ['LAST', ({ last_turn_at }) => formatLocalTime(last_turn_at)],
    ['ERROR', ({ last_error = '' }) => oneLine(last_error)],
  ]
  return { text: formatTable(all, columns, colours.bold) }
}

function formatTurns(all: readonly AgentTurn[]): CommandOutput {
  if (all.length === 0) return { note: formatNote('no turns') }
  const columns: Column<AgentTurn>[] = [
    ['ID', ({ id }) => String(id)],
    ['AGENT', ({ agent }) => oneLine(agent)],
    ['SESSION', ({ session }) => oneLine(session)],
    ['USER', ({ user_id }) => oneLine(user_id)],
    ['SINCE', ({ created_at }) => formatLocalTime(created_at)],
    ['STATE', stateOf],
    ['SENT', ({ parts, parts_sent = 0 }) => (parts === undefined ? '' : `${parts_sent} of ${parts}`)],
    ['ERROR', ({ error = '' }) => oneLine(error)],
  ]
  return { text: formatTable(all, columns, colours.bold) }
}

function stateOf({ approval, state, stopping }: AgentTurn): string {
  if (approval !== undefined) return approval === 'waits' ? 'waits for approval' : 'declined'
  return stopping ? 'stopping' : state
}

function formatQuestions(all: readonly AgentQuestion[], again: string): CommandOutput {
  if (all.length === 0) return { note: formatNote('no agent asks anything') }
  const lines = all.flatMap(({ agent, expires_at, id, options, text, user_id }) => [
    `${colours.bold(String(id))}  ${oneLine(agent)} for ${oneLine(user_id)}, until ${formatLocalTime(expires_at)}`,
    `  ${oneLine(text)}`,
    ...options.map(option => `  ${colours.bold(oneLine(option.id))}  ${oneLine(option.name)}`),
  ])
  return { text: `${lines.join('\n')}\n`, note: formatNote(`svc agent answer ID OPTION${again} answers one`) }
}
