/** The detail of a conversation with an agent: the newest turns, and facts about it. */
import { questions } from '../answers.ts'
import { number, t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { timeNow } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Link } from '../ui/link.tsx'
import { Fact, State } from '../ui/marks.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { useWork } from '../ui/work.ts'
import { nameOfTalk, stop } from './list.tsx'
import { QuestionRows } from './questions.tsx'
import { PersonTimes, type TimesProps } from './times.tsx'
import { Turns } from './turns.tsx'
import { type AgentTalk, talkLooks } from './words.ts'

interface TalkSheetProps {
  talk: AgentTalk
  times: TimesProps
  /** Grows with each action of the person. */
  acts: number
  onAct(): void
  onClose(): void
}

export function TalkSheet({ talk, times, acts, onAct, onClose }: TalkSheetProps) {
  const { agent, session, status, title, user_id: userId } = talk
  const { busy, work } = useWork()
  const open = (questions.value ?? []).filter(
    one =>
      one.agent === agent && one.session === session && one.user_id === userId && one.expires_at > timeNow(),
  )
  const chat = may('conversations') && (
    <Link class="button" href={hrefOf({ session, userId })}>
      {t('approvals.open_talk')}
    </Link>
  )
  const stops = status !== 'idle' && (
    <button
      type="button"
      class="button"
      aria-disabled={busy.value}
      onClick={() => work(() => stop(talk, onAct))}
    >
      {t('agents.stop')}
    </button>
  )
  return (
    <Sheet
      title={nameOfTalk(talk)}
      description={[title, agent, session].filter(Boolean).join(' · ')}
      onClose={onClose}
      footer={
        (chat || stops) && (
          <>
            {chat}
            {stops}
          </>
        )
      }
    >
      <p>
        <State {...talkLooks[status]} />
      </p>
      {open.length > 0 && <QuestionRows questions={open} onAct={onAct} />}
      <PersonTimes talk={talk} {...times} />
      <Turns talk={talk} acts={acts} />
      <Facts talk={talk} />
    </Sheet>
  )
}

function Facts({ talk }: { talk: AgentTalk }) {
  const { agent_session, folder, mode, model, place, turns, user_id } = talk
  const ids = [
    ['agents.model', model],
    ['agents.mode', mode],
    ['agents.session', agent_session],
    ['agents.folder', folder],
    ['agents.user', user_id],
  ] as const
  return (
    <details class="more-fields">
      <summary>{t('agents.details')}</summary>
      <dl>
        <Fact label={t('agents.turns')}>{number(turns)}</Fact>
        {ids.map(
          ([label, text]) =>
            text !== undefined && (
              <Fact key={label} label={t(label)}>
                {label === 'agents.folder' && place !== undefined && <bdi class="foreign">{place}</bdi>}
                <Copyable text={text} what={t(label)} />
              </Fact>
            ),
        )}
      </dl>
    </details>
  )
}
