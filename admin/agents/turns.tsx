/** The newest turns of a conversation with an agent. */
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { call } from '../api.ts'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { stamp } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { State, Time } from '../ui/marks.tsx'
import { lookOf, type Turn } from './words.ts'

const mostShown = 20
const everyMs = 2000

interface TurnsProps {
  agent: string
  session: string
  user: string
  /** Grows with each action of the person. */
  acts: number
}

export function Turns({ agent, session, user, acts }: TurnsProps) {
  const ask = useCallback(
    () => call('list_agent_turns', { agent, session, user, limit: mostShown }),
    [agent, session, user, acts],
  )
  const { value, error } = useAnswer(ask, everyMs, everyMs)
  const turns = value.value
  return (
    <>
      {error.value !== undefined && <p class="problem small">{errorText(error.value).title}</p>}
      {turns?.length === 0 && <p class="soft small">{t('agents.turns_none')}</p>}
      <ul>
        {turns?.map(one => (
          <One key={one.id} turn={one} />
        ))}
      </ul>
    </>
  )
}

function One({ turn }: { turn: Turn }) {
  const { session, user_id: userId, state, source, messages, created_at, stopping } = turn
  const { parts, parts_sent: sent = 0, error } = turn
  const [first] = messages
  const count = t('agents.messages', { count: messages.length })
  return (
    <li>
      <div class="agent-turn small">
        <State {...lookOf(turn)} />
        {stopping === true && state !== 'stopped' && <span class="soft">{t('agents.stopping')}</span>}
        <Time at={created_at} class="soft">
          {stamp(created_at)}
        </Time>
        {source === 'inject' && <span class="soft">{t('agents.injected')}</span>}
        {first !== undefined &&
          (may('conversations') ? (
            <Link class="link" href={hrefOf({ session, userId, m: first })}>
              {count}
            </Link>
          ) : (
            <span class="soft">{count}</span>
          ))}
        {parts !== undefined && <span class="soft">{t('agents.parts', { sent, parts })}</span>}
      </div>
      {error !== undefined && (
        <span class="problem foreign" dir="auto">
          {error.slice(0, 1000)}
        </span>
      )}
    </li>
  )
}
