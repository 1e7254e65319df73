/** The page of agents: their open questions, and who talks with them. */
import { useSignal } from '@preact/signals'
import { useCallback, useEffect } from 'preact/hooks'
import { AgentCard } from '../agents/card.tsx'
import { Questions } from '../agents/questions.tsx'
import { askQuestionsAgain, questions, questionsEveryMs, useAnswer } from '../answers.ts'
import { call } from '../api.ts'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { Copyable } from '../ui/copy.tsx'
import { Icon } from '../ui/icon.tsx'

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
    <div class="page sessions agents">
      <header>
        <div>
          <h1>{t('nav.agents')}</h1>
          <p class="soft">{t('agents.about')}</p>
        </div>
      </header>
      {!talks && error.value === undefined && <p class="soft">{t('status.loading')}</p>}
      {error.value !== undefined && (
        <div class="notice bad" role="alert">
          <Icon name="warn" />
          <p>{errorText(error.value).title}</p>
          <button type="button" class="button" onClick={again}>
            {t('action.retry')}
          </button>
        </div>
      )}
      {talks?.length === 0 && (
        <div class="card empty">
          <h2>{t('agents.none')}</h2>
          <p>{t('agents.none_about')}</p>
          <Copyable text={startCommand} what={t('overview.command')} />
        </div>
      )}
      {talks && talks.length > 0 && (
        <>
          <Questions questions={open} onAct={onAct} />
          <section aria-labelledby="talks">
            <h2 id="talks">{t('nav.conversations')}</h2>
            <ul class="accounts">
              {talks.map(one => (
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
    </div>
  )
}
