/** Declares the commands about what agents in front of WeChat do: `svc agent conversations`, `turns` and so on. */
import type { AgentQuestion, AgentTurn } from '../../model/agent.ts'
import * as agents from '../../operations/agents.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, tableView } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(
    agents.listAgentConversations,
    tableView('nobody talks with an agent; see svc agent --help', [
      ['AGENT', 'agent'],
      ['SESSION', 'session'],
      ['USER', ({ user_id, user_name = user_id }) => oneLine(user_name)],
      ['STATUS', 'status'],
      ['CHOSEN', ({ chosen }) => (chosen ? 'yes' : '')],
      ['SETTINGS', ({ mode, model, place }) => oneLine([model, mode, place].filter(Boolean).join(', '))],
      ['TITLE', 'title'],
      ['TURNS', 'turns'],
      ['LAST', 'last_turn_at'],
      ['ERROR', 'last_error'],
    ]),
  ),
  operationCommand(
    agents.listAgentTurns,
    tableView('no turns', [
      ['ID', 'id'],
      ['AGENT', 'agent'],
      ['SESSION', 'session'],
      ['USER', 'user_id'],
      ['SINCE', 'created_at'],
      ['STATUS', statusOf],
      ['SENT', ({ parts, parts_sent = 0 }) => (parts === undefined ? '' : `${parts_sent} of ${parts}`)],
      ['ERROR', 'error'],
    ]),
  ),
  operationCommand(agents.stopAgentTurn, {
    hasFailed: ({ status, stopping = false }) => !stopping && status !== 'stopped',
    changeMade: 'stopped',
    render: ({ id, status, stopping }) => [
      stopping ? `stopping: ${id}` : status === 'stopped' ? `stopped: ${id}` : `it has ended: ${status}`,
    ],
  }),
  operationCommand(agents.injectAgentTurn, {
    changeMade: 'added',
    render: ({ agent, id, user_id }) => [
      `added: turn ${id} for ${oneLine(user_id)}; it waits until the agent ${oneLine(agent)} runs`,
    ],
  }),
  operationCommand(
    agents.listAgentTimes,
    tableView('nothing is to be done at a time; see svc agent times add --help', [
      ['ID', 'id'],
      ['NEXT', 'next_at'],
      ['WHEN', ({ when, zone }) => `${when} (${zone})`],
      ['USER', 'user_id'],
      ['AGENT', 'agent'],
      ['PAUSED', ({ paused = '' }) => pauses[paused] ?? ''],
      ['PROMPT', ({ prompt = '' }) => oneLine(prompt).slice(0, 60)],
    ]),
  ),
  operationCommand(agents.addAgentTime, {
    changeMade: 'added',
    render: ({ id, next_at, user_id, when, zone }) => [
      `added: time ${id} for ${oneLine(user_id)}: ${when} (${zone}); next: ${formatLocalTime(next_at)}`,
    ],
  }),
  operationCommand(agents.cancelAgentTime, {
    changeMade: 'cancelled',
    render: ({ id }) => [`cancelled: ${id}`],
  }),
  operationCommand(agents.listAgentQuestions, { createEmpty: () => [], render: formatQuestions }),
  operationCommand(agents.answerAgentQuestion, {
    changeMade: 'answered',
    render: ({ answer, id }) => [`answered: ${id}, ${oneLine(answer ?? '')}`],
  }),
]

const pauses: Readonly<Record<string, string>> = {
  answer: 'its answer waits',
  copy: 'restored: add it again',
}

function statusOf({ approval, status, stopping }: AgentTurn): string {
  if (approval !== undefined) return approval === 'waits' ? 'waits for approval' : 'declined'
  return stopping ? 'stopping' : status
}

function formatQuestions(all: readonly AgentQuestion[], again: string): CommandOutput {
  if (all.length === 0) return { note: 'no agent asks anything' }
  const text = all.flatMap(({ agent, expires_at, id, options, text, user_id }) => [
    `${colours.bold(String(id))}  ${oneLine(agent)} for ${oneLine(user_id)}, until ${formatLocalTime(expires_at)}`,
    `  ${oneLine(text)}`,
    ...options.map(option => `  ${colours.bold(oneLine(option.id))}  ${oneLine(option.name)}`),
  ])
  return { text, note: `svc agent answer ID OPTION${again} answers one` }
}
