/** What agents ask before they do something, with a button for each answer. */

import { useSignal } from '@preact/signals'
import type { Question } from '../answers.ts'
import { ApiError, call } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { left, timeNow } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { tell, tellDoubt, tellError } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import { Avatar } from '../users/avatar.tsx'
import { rejectsFirst, shortOf, wishOf } from './words.ts'

interface QuestionsProps {
  questions: readonly Question[]
  /** Called after an answer. */
  onAct(): void
}

export function Questions({ questions, onAct }: QuestionsProps) {
  const open = questions.filter(({ expires_at }) => expires_at > timeNow())
  return (
    <section class="agent-questions">
      <p id="questions" class={open.length > 0 ? '' : 'soft'} role="status" tabIndex={-1}>
        {open.length === 0 ? t('agents.questions_none') : t('agents.questions_open', { count: open.length })}
      </p>
      {open.length > 0 && !may('approve') && <p class="notice small">{t('agents.no_right')}</p>}
      {open.length > 0 && <QuestionRows questions={open} onAct={onAct} />}
    </section>
  )
}

export const QuestionRows = ({ questions, onAct }: QuestionsProps) => (
  <ul class="rows" aria-label={t('agents.questions')}>
    {questions.map(one => (
      <One key={one.id} question={one} onAct={onAct} />
    ))}
  </ul>
)

const secondsLeft = (ms: number): string =>
  ms < 60_000 ? t('chat.seconds', { seconds: Math.ceil(ms / 1000) }) : left(ms)

function One({ question, onAct }: { question: Question; onAct(): void }) {
  const { agent, session, user_id: userId, text, expires_at } = question
  const { key, what, folder } = wishOf(text)
  const name = nameOf(session, userId) ?? userId
  const sentence = t(key, { agent: isolated(agent), name: isolated(name) })
  return (
    <li class="row ask">
      <Avatar session={session} id={userId} small />
      <div class="row-main">
        <div>
          <bdi class="row-name">{sentence}</bdi>
          <p class="soft small">
            {may('conversations') && (
              <>
                <Link class="link" href={hrefOf({ session, userId })}>
                  {t('approvals.open_talk')}
                </Link>
                {' · '}
              </>
            )}
            {t('agents.left', { time: secondsLeft(expires_at - timeNow()) })}
            {folder !== undefined && ` · ${t('agents.in_folder', { folder: isolated(folder) })}`}
          </p>
        </div>
        <Wish text={what} label={t('agents.question_text', { name: isolated(name) })} />
        {may('approve') && <Answers question={question} onAct={onAct} />}
      </div>
    </li>
  )
}

/** What the agent wants to do, in a line or two. The whole text is shown on demand. */
function Wish({ text, label }: { text: string; label: string }) {
  const whole = useSignal(false)
  const short = shortOf(text)
  return (
    <div class="wish">
      <blockquote
        class="foreign"
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text is scrolled by keys
        tabIndex={0}
        dir="auto"
      >
        {whole.value ? text : short}
      </blockquote>
      {short !== text && (
        <button
          type="button"
          class="link small"
          aria-expanded={whole.value}
          onClick={() => {
            whole.value = !whole.value
          }}
        >
          {t(whole.value ? 'chat.less' : 'agents.whole')}
        </button>
      )}
    </div>
  )
}

function Answers({ question: { id, options, text }, onAct }: { question: Question; onAct(): void }) {
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
    <div class="answers">
      {rejectsFirst(options).map(({ id: option, name }) => (
        <button
          key={option}
          type="button"
          class="button"
          aria-disabled={busy.value}
          onClick={() => work(() => answer(option))}
        >
          <bdi class="foreign">{name}</bdi>
          <bdi class="visually-hidden"> {text.slice(0, 80)}</bdi>
        </button>
      ))}
    </div>
  )
}
