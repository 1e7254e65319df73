/** What agents ask before they do something, with a button for each answer. */

import type { Question } from '../answers.ts'
import { ApiError, call } from '../api.ts'
import { gap, isolated, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { may } from '../rights.ts'
import { ago, left, timeNow } from '../times.ts'
import { tell, tellDoubt, tellError } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import { Talk } from './talk.tsx'

interface QuestionsProps {
  questions: readonly Question[]
  /** Called after an answer. */
  onAct(): void
}

export function Questions({ questions, onAct }: QuestionsProps) {
  const open = questions.filter(({ expires_at }) => expires_at > timeNow())
  return (
    <section class="card agent-questions" aria-labelledby="questions">
      <h2 id="questions" tabIndex={-1}>
        {t('agents.questions')}
      </h2>
      <p class="soft" role="status">
        {open.length === 0 ? t('agents.questions_none') : t('agents.questions_open', { count: open.length })}
      </p>
      {open.length > 0 && !may('approve') && <p class="notice small">{t('agents.no_right')}</p>}
      <ul class="queue">
        {open.map(one => (
          <One key={one.id} question={one} onAct={onAct} />
        ))}
      </ul>
    </section>
  )
}

const secondsLeft = (ms: number): string =>
  ms < 60_000 ? t('chat.seconds', { seconds: Math.ceil(ms / 1000) }) : left(ms)

function One({ question, onAct }: { question: Question; onAct(): void }) {
  const { id, agent, session, user_id, text, options, asked_at, expires_at } = question
  const { busy, work } = useWork(error => {
    if (error instanceof ApiError && error.code === 'not_found') tellDoubt(t('agents.too_late'))
    else tellError(error)
  })
  const answer = async (option: string) => {
    try {
      await call('answer_agent_question', { id, option })
      tell(t('agents.answered'))
    } finally {
      // The pressed button goes away.
      document.getElementById('questions')?.focus({ preventScroll: true })
      onAct()
    }
  }
  return (
    <li class="asks">
      <Talk session={session} userId={user_id} />
      <blockquote
        class="asked foreign"
        aria-label={t('agents.question_text', { name: isolated(nameOf(session, user_id) ?? user_id) })}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text is scrolled by keys
        tabIndex={0}
        dir="auto"
      >
        {text}
      </blockquote>
      <p class="soft small">
        {t('agents.asked', { agent: isolated(agent), name: isolated(session), when: ago(asked_at) })}
        {gap()}
        {t('agents.left', { time: secondsLeft(expires_at - timeNow()) })}
      </p>
      {may('approve') && (
        <div class="answers">
          {options.map(({ id: option, name, kind }) => (
            <button
              key={option}
              type="button"
              class={`button ${kind.startsWith('reject') ? '' : 'primary'}`}
              aria-disabled={busy.value}
              onClick={() => work(() => answer(option))}
            >
              <bdi class="foreign">{name}</bdi>
              <bdi class="visually-hidden"> {text.slice(0, 80)}</bdi>
            </button>
          ))}
        </div>
      )}
    </li>
  )
}
