/** The sessions of a conversation: how what is kept about them changes. */
import type { ConversationState, KeptSession } from '../index.ts'
import { escapeControls } from '../platform/escape-controls.ts'

/** Sessions that are kept for a conversation. */
const maxSessions = 30
const titleLength = 40

/** Returns the beginning of a text, as one line of a list. */
export function toTitle(text: string, most = titleLength): string {
  const line = escapeControls(
    text
      .slice(0, 10 * most)
      .replace(/\s+/g, ' ')
      .trim(),
  )
  const characters = [...line]
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : line
}

/** Returns the state with its current session, and no other, at the beginning of the list. */
function remember(state: ConversationState, at: number): ConversationState {
  const { agent_session, folder, sessions = [], title } = state
  if (agent_session === undefined || folder === undefined) return state
  if (sessions.some(one => one.agent_session === agent_session)) return state
  return { ...state, sessions: [{ agent_session, folder, title, at }, ...sessions].slice(0, maxSessions) }
}

/** Ends the current session. @param title of the next one */
export function beginNew(state: ConversationState, title: string, at: number): ConversationState {
  const { agent_session: _, title: _title, ...rest } = remember(state, at)
  return { ...rest, ...(title && { title: toTitle(title) }) }
}

/** Goes to a folder, and there to a session or to a new one. @param place name of the folder */
export function goTo(
  state: ConversationState,
  { folder, place, session }: { folder: string; place: string | undefined; session: KeptSession | undefined },
  at: number,
): ConversationState {
  const { place: _, ...rest } = beginNew(state, '', at)
  const { agent_session, title } = session ?? {}
  return { ...rest, folder, place, agent_session, title }
}

/**
 * Notes the session of a turn. If a person went to another one meanwhile, that stays the current one.
 *
 * @param before the session with which the turn began, or that it had until now
 */
export function noteSession(
  state: ConversationState,
  { agent_session, folder, title }: Omit<KeptSession, 'at'>,
  before: string | undefined,
  at: number,
): ConversationState {
  const { sessions = [] } = state
  const isCurrent = state.agent_session === before && state.folder === folder
  const known = sessions.find(one => [before, agent_session].includes(one.agent_session))
  const entry = {
    agent_session,
    folder,
    title: known?.title ?? (isCurrent ? state.title : title) ?? title,
    at,
  }
  // The agent may go on under another id.
  const others = sessions.filter(one => ![before, agent_session].includes(one.agent_session))
  const noted = { ...state, sessions: [entry, ...others].slice(0, maxSessions) }
  return isCurrent ? { ...noted, agent_session, title: entry.title } : noted
}
