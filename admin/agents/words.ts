/** How states of conversations and turns look. */
import type { Answer } from '../api.ts'
import type { Look } from '../ui/marks.tsx'

export type AgentTalk = Answer<'list_agents'>[number]
export type Turn = Answer<'list_agent_turns'>[number]

export const talkLooks: Readonly<Record<AgentTalk['state'], Look>> = {
  idle: { tone: '', text: 'agents.idle' },
  waiting: { tone: '', text: 'agents.waiting' },
  running: { tone: 'good', text: 'agents.running' },
  asking: { tone: 'warn', text: 'agents.asking' },
}

const turnLooks: Readonly<Record<Turn['state'], Look>> = {
  waiting: talkLooks.waiting,
  running: talkLooks.running,
  answering: { tone: 'good', text: 'agents.turn_answering' },
  answered: { tone: '', text: 'agents.turn_answered' },
  more: { tone: '', text: 'agents.turn_more' },
  stopped: { tone: '', text: 'agents.turn_stopped' },
  interrupted: { tone: 'warn', text: 'agents.turn_interrupted' },
  failed: { tone: 'bad', text: 'agents.turn_failed' },
}

const approvalLooks: Readonly<Record<NonNullable<Turn['approval']>, Look>> = {
  waits: { tone: 'warn', text: 'delivery.approval_note' },
  declined: { tone: '', text: 'delivery.declined_note' },
}

export const lookOf = ({ approval, state }: Turn): Look =>
  approval === undefined ? turnLooks[state] : approvalLooks[approval]

export const isOpen = ({ state }: Turn): boolean =>
  state === 'waiting' || state === 'running' || state === 'answering'
