/** The page of agents: their open questions, and who talks with them. */
import { useSignal } from '@preact/signals'
import { useCallback, useEffect } from 'preact/hooks'
import { Agent } from '../agents/list.tsx'
import { Questions } from '../agents/questions.tsx'
import { TalkSheet } from '../agents/sheet.tsx'
import { AllTimes, type AskedTime, AskTime } from '../agents/times.tsx'
import { keyOf } from '../agents/words.ts'
import { askQuestionsAgain, questions, questionsEveryMs, useAnswer } from '../answers.ts'
import { call } from '../api.ts'
import { t } from '../i18n.ts'
import { setParams, useParam } from '../place.ts'
import { useAsked } from '../ui/ask.tsx'
import { ListPage, Nothing } from '../ui/list-page.tsx'

const everyMs = 2000
const startCommand = 'svc agent -- claude -p'

export function Agents() {
  const acts = useSignal(0)
  const ask = useCallback(
    () => Promise.all([call('list_agent_conversations', {}), call('list_agent_times', {})]),
    [acts.value],
  )
  const { value, error, again } = useAnswer(ask, everyMs, everyMs)
  const onAct = () => {
    acts.value++
    askQuestionsAgain()
  }
  useEffect(() => {
    const usually = questionsEveryMs.peek()
    questionsEveryMs.value = everyMs
    return () => {
      questionsEveryMs.value = usually
    }
  }, [])
  const open = questions.value
  // The questions are above the conversations, so both come at once.
  const [talks, times = []] = (open && value.value) ?? []
  const param = useParam('talk')
  const shown = talks?.find(one => keyOf(one) === param)
  const { question, ask: askFor, close } = useAsked<AskedTime>()
  const forTimes = { times, talks: talks ?? [], onAsk: askFor, onAct }
  return (
    <ListPage
      class="agents"
      title={t('nav.agents')}
      about={t('agents.about')}
      all={talks && [...talks, ...times]}
      failure={error.value}
      onRetry={again}
      empty={
        <Nothing
          icon="agents"
          title={t('agents.none')}
          about={t('agents.none_about')}
          command={startCommand}
        />
      }
      after={
        <>
          {shown && (
            <TalkSheet
              talk={shown}
              times={forTimes}
              acts={acts.value}
              onAct={onAct}
              onClose={() => setParams({ talk: '' })}
            />
          )}
          {question && <AskTime asked={question} talks={talks ?? []} onAct={onAct} onClose={close} />}
        </>
      }
    >
      {() => (
        <>
          <Questions questions={open ?? []} onAct={onAct} />
          {[...Map.groupBy(talks ?? [], ({ agent }) => agent)].map(([name, own]) => (
            <Agent key={name} name={name} talks={own} all={talks ?? []} onAct={onAct} />
          ))}
          <AllTimes {...forTimes} />
        </>
      )}
    </ListPage>
  )
}
