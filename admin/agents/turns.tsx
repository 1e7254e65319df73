/** The newest turns of a conversation with an agent: what was asked, and what it answered. */
import type { ComponentChildren } from 'preact'
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { call } from '../api.ts'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { Link } from '../ui/link.tsx'
import { ShortTime, State } from '../ui/marks.tsx'
import { Who } from '../users/avatar.tsx'
import { type AgentTalk, lookOf, type Turn, wordsOf } from './words.ts'

const mostShown = 20
/** What begins a turn without a message. */
const sources = { inject: 'agents.injected', time: 'agents.at_time' } as const
const everyMs = 2000

interface TurnsProps {
  talk: AgentTalk
  /** Grows with each action of the person. */
  acts: number
}

export function Turns({ talk: { agent, session, user_id: user, user_name: name }, acts }: TurnsProps) {
  const ask = useCallback(
    () => call('list_agent_turns', { agent, session, user, limit: mostShown }),
    [agent, session, user, acts],
  )
  const { value, error } = useAnswer(ask, everyMs, everyMs)
  const turns = value.value
  return (
    <section aria-labelledby="turns">
      <h3 id="turns">{t('agents.newest')}</h3>
      {error.value !== undefined && <p class="problem small">{errorText(error.value).title}</p>}
      {!turns && error.value === undefined && <span class="skeleton line" />}
      {turns?.length === 0 && <p class="soft small">{t('agents.turns_none')}</p>}
      <ul class="agent-turns">
        {turns?.map(one => (
          <One key={one.id} turn={one} name={name} />
        ))}
      </ul>
    </section>
  )
}

function One({ turn, name }: { turn: Turn; name: string | undefined }) {
  const { agent, session, user_id: userId, status, source, created_at, stopping } = turn
  const { answer, error, parts, parts_sent: sent = 0, prompt } = turn
  return (
    <li>
      <div class="agent-turn small">
        <State {...lookOf(turn)} />
        {stopping === true && status !== 'stopped' && <span class="soft">{t('agents.stopping')}</span>}
        {parts !== undefined && sent < parts && (
          <span class="soft">{t('agents.parts', { sent, parts })}</span>
        )}
        <Messages turn={turn} />
        <ShortTime at={created_at} />
      </div>
      {prompt && (
        <Said
          by={source === 'message' ? <Who session={session} id={userId} name={name} /> : t(sources[source])}
        >
          {wordsOf(prompt)}
        </Said>
      )}
      {answer && (
        <Said class="answer" by={<bdi class="foreign">{agent}</bdi>}>
          {wordsOf(answer)}
        </Said>
      )}
      {error !== undefined && (
        <span class="problem foreign" dir="auto">
          {readable(error)}
        </span>
      )}
    </li>
  )
}

interface SaidProps {
  class?: string
  by: ComponentChildren
  children: string
}

const Said = ({ class: kind, by, children }: SaidProps) => (
  <blockquote class={kind}>
    <p class="speaker soft small">{by}</p>
    <p class="said foreign" dir="auto">
      {children}
    </p>
  </blockquote>
)

/** An agent's error may be JSON, of which people need the message. */
function readable(error: string): string {
  const [, said] = /"(?:message|detail)"\s*:\s*"((?:[^"\\]|\\.)+)"/.exec(error) ?? []
  return (said === undefined ? error : said.replace(/\\(.)/g, '$1')).slice(0, 1000)
}

/** The number of messages that the turn is about, with a link to the first one. */
function Messages({ turn: { messages, session, user_id: userId } }: { turn: Turn }) {
  const [first] = messages
  if (first === undefined) return null
  const count = t('search.messages', { count: messages.length })
  if (!may('conversations')) return <span class="soft">{count}</span>
  return (
    <Link class="link" href={hrefOf({ session, userId, m: first })}>
      {count}
    </Link>
  )
}
