/** The page of agents: their open questions, and who talks with them. */
import { useSignal } from '@preact/signals'
import { useCallback, useEffect } from 'preact/hooks'
import { AgentCard } from '../agents/card.tsx'
import { Questions } from '../agents/questions.tsx'
import { askQuestionsAgain, questions, questionsEveryMs, useAnswer } from '../answers.ts'
import { call } from '../api.ts'
import { t } from '../i18n.ts'
import { ListPage, Nothing } from '../ui/list-page.tsx'

const everyMs = 2000
const startCommand = 'svc agent -- claude -p'

export function Agents() {
  const acts = useSignal(0)
  const ask = useCallback(() => call('list_agents', {}), [acts.value])
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
  const talks = open && value.value
  return (
    <ListPage
      class="agents"
      title={t('nav.agents')}
      about={t('agents.about')}
      all={talks}
      failure={error.value}
      onRetry={again}
      empty={<Nothing title={t('agents.none')} about={t('agents.none_about')} command={startCommand} />}
    >
      {all => (
        <>
          <Questions questions={open ?? []} onAct={onAct} />
          <section aria-labelledby="talks">
            <h2 id="talks">{t('nav.conversations')}</h2>
            <ul class="accounts">
              {all.map(one => (
                <AgentCard
                  key={`${one.agent} ${one.session} ${one.user_id}`}
                  talk={one}
                  acts={acts.value}
                  onAct={onAct}
                />
              ))}
            </ul>
          </section>
        </>
      )}
    </ListPage>
  )
}
