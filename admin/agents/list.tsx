/** The conversations with agents, as rows below the name of the agent. */
import { call } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { hrefOf, withParams } from '../place.ts'
import { may } from '../rights.ts'
import { navigate } from '../service-urls.ts'
import { ago } from '../times.ts'
import { State, Time } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { Row, Rows } from '../ui/rows.tsx'
import { tell, tellDoubt } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import { Avatar, Who } from '../users/avatar.tsx'
import { type AgentTalk, isOpen, keyOf, personOf, talkLooks } from './words.ts'

type Person = Pick<AgentTalk, 'session' | 'user_id' | 'user_name'>
export const nameOfTalk = ({ session, user_id, user_name }: Person): string =>
  user_name ?? nameOf(session, user_id) ?? user_id

interface AgentProps {
  name: string
  talks: AgentTalk[]
  /** Those with every agent. */
  all: readonly AgentTalk[]
  onAct(): void
}

export function Agent({ name, talks, all, onAct }: AgentProps) {
  const id = `agent ${name}`
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>
        <bdi class="foreign">{name}</bdi>{' '}
        <span class="soft small">{t('search.people', { count: talks.length })}</span>
      </h2>
      <Rows label={name}>
        {talks.map(one => (
          <Talk key={keyOf(one)} talk={one} isChosen={isChosenOf(one, all)} onAct={onAct} />
        ))}
      </Rows>
    </section>
  )
}

/** Whether the person has chosen this one of several agents. */
const isChosenOf = (talk: AgentTalk, all: readonly AgentTalk[]): boolean =>
  talk.chosen === true && all.some(one => one.agent !== talk.agent && personOf(one) === personOf(talk))

function Talk({ talk, isChosen, onAct }: { talk: AgentTalk; isChosen: boolean; onAct(): void }) {
  const { session, user_id: userId, user_name: name, status, last_error, last_turn_at } = talk
  const { work } = useWork()
  const actions: Action[] = []
  const open = () => navigate(hrefOf({ session, userId }))
  if (may('conversations'))
    actions.push({ id: 'chat', label: t('approvals.open_talk'), icon: 'conversations', run: open })
  const end = () => work(() => stop(talk, onAct))
  if (status !== 'idle') actions.push({ id: 'stop', label: t('agents.stop'), icon: 'pause', run: end })
  return (
    <Row
      lead={<Avatar session={session} id={userId} small />}
      name={<Who session={session} id={userId} name={name} />}
      href={withParams({ talk: keyOf(talk) })}
      about={
        <bdi class={last_error === undefined ? 'foreign' : 'problem foreign'} title={last_error}>
          {last_error?.slice(0, 200) ?? session}
        </bdi>
      }
      end={
        <>
          {last_turn_at !== undefined && (
            <Time at={last_turn_at} class="soft small">
              {ago(last_turn_at)}
            </Time>
          )}
          {actions.length > 0 && (
            <Menu label={t('agents.more', { name: isolated(nameOfTalk(talk)) })} actions={actions} />
          )}
        </>
      }
    >
      <State {...talkLooks[status]} />
      {isChosen && <span class="badge">{t('agents.chosen')}</span>}
    </Row>
  )
}

/** More than a conversation has in practice. */
const mostTurns = 200

/** Stops what the agent works on, or what it would work on next. */
export async function stop({ agent, session, user_id: user }: AgentTalk, onAct: () => void): Promise<void> {
  try {
    const turns = (await call('list_agent_turns', { agent, session, user, limit: mostTurns })).filter(isOpen)
    const turn = turns.findLast(({ status }) => status !== 'waiting') ?? turns.at(-1)
    const { status: now, stopping } = turn ? await call('stop_agent_turn', { id: turn.id }) : {}
    if (stopping || now === 'stopped') tell(t('agents.stopped'))
    else tellDoubt(t('agents.had_ended'))
  } finally {
    onAct()
  }
}
