/** The card of a conversation with an agent: what the agent does now, and the newest turns. */
import { useSignal } from '@preact/signals'
import { call } from '../api.ts'
import { isolated, number, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { ago } from '../times.ts'
import { Fact, State, Time } from '../ui/marks.tsx'
import { tell, tellDoubt } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import { Talk } from './talk.tsx'
import { Turns } from './turns.tsx'
import { type AgentTalk, isOpen, talkLooks } from './words.ts'

interface CardProps {
  talk: AgentTalk
  /** Grows with each action of the person. */
  acts: number
  onAct(): void
}

export function AgentCard({ talk, acts, onAct }: CardProps) {
  const { agent, session, user_id, user_name, state, last_error } = talk
  const open = useSignal(false)
  const name = user_name ?? nameOf(session, user_id) ?? user_id
  return (
    <li class="card account">
      <header>
        <div class="account-name">
          <h3>
            <Talk session={session} userId={user_id} name={user_name} />
          </h3>
          <p>
            <State {...talkLooks[state]} />
          </p>
        </div>
        {state !== 'idle' && <Stop talk={talk} name={name} onAct={onAct} />}
      </header>
      {last_error !== undefined && (
        <p class="problem cut" title={last_error}>
          <bdi>{last_error.slice(0, 200)}</bdi>
        </p>
      )}
      <Facts talk={talk} />
      <details
        onToggle={event => {
          open.value = event.currentTarget.open
        }}
      >
        <summary>
          {t('agents.newest')}
          <span class="visually-hidden"> {isolated(name)}</span>
        </summary>
        {open.value && <Turns agent={agent} session={session} user={user_id} acts={acts} />}
      </details>
    </li>
  )
}

function Facts({ talk }: { talk: AgentTalk }) {
  const { agent, session, turns, last_turn_at, agent_session, folder } = talk
  return (
    <dl>
      <Fact label={t('agents.agent')}>
        <bdi class="foreign">{agent}</bdi>
      </Fact>
      <Fact label={t('search.account')}>
        <bdi class="foreign">{session}</bdi>
      </Fact>
      <Fact label={t('agents.turns')}>{number(turns)}</Fact>
      <Fact label={t('agents.last_turn')}>
        {last_turn_at === undefined ? (
          t('sessions.never')
        ) : (
          <Time at={last_turn_at}>{ago(last_turn_at)}</Time>
        )}
      </Fact>
      {agent_session !== undefined && (
        <Fact label={t('agents.session')}>
          <code class="foreign">{agent_session}</code>
        </Fact>
      )}
      {folder !== undefined && (
        <Fact label={t('agents.folder')}>
          <code class="foreign" dir="ltr">
            {folder}
          </code>
        </Fact>
      )}
    </dl>
  )
}

/** More than a conversation has in practice. */
const mostTurns = 200

function Stop({ talk, name, onAct }: { talk: AgentTalk; name: string; onAct(): void }) {
  const { agent, session, user_id: user } = talk
  const { busy, work } = useWork()
  const stop = async () => {
    try {
      const turns = (await call('list_agent_turns', { agent, session, user, limit: mostTurns })).filter(
        isOpen,
      )
      const turn = turns.findLast(({ state }) => state !== 'waiting') ?? turns.at(-1)
      const { state, stopping } = turn ? await call('stop_agent_turn', { id: turn.id }) : {}
      if (stopping || state === 'stopped') tell(t('agents.stopped'))
      else tellDoubt(t('agents.had_ended'))
    } finally {
      onAct()
    }
  }
  return (
    <button type="button" class="button" aria-disabled={busy.value} onClick={() => work(stop)}>
      {t('agents.stop')}
      <span class="visually-hidden"> {isolated(name)}</span>
    </button>
  )
}
