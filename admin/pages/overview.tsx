/** The overview: the state of all accounts, and what to do about problems. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { outbox, questions, seesOutbox, useAnswer } from '../answers.ts'
import { t } from '../i18n.ts'
import { conversations, online, sessions, status } from '../live.ts'
import { Accounts } from '../overview/accounts.tsx'
import { Activity } from '../overview/activity.tsx'
import { Attention } from '../overview/attention.tsx'
import { askBackups, Backups } from '../overview/backups.tsx'
import { concernsOf, isToDo } from '../overview/concerns.ts'
import { Recent } from '../overview/recent.tsx'
import { type Judgement, sentenceOf } from '../overview/sentence.ts'
import { Welcome } from '../overview/welcome.tsx'
import { isOwner, may } from '../rights.ts'
import { phonePath } from '../service-urls.ts'
import { LoggedOut } from '../sessions/logged-out.tsx'
import { now, timeNow, whole } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { LoadingRows } from '../ui/list-page.tsx'
import { Soon } from '../ui/soon.tsx'
import { askEndpoints } from '../webhooks/endpoints.ts'

/** Drawn once all is there: what came later would move the rest. */
export function Overview() {
  const hooks = useAnswer(may('webhooks') ? askEndpoints : noEndpoints, 10_000)
  const backups = useAnswer(may('backup') ? askBackups : noBackups, 30_000)
  const waiting = seesOutbox() ? outbox.value : []
  const isDrawn = useRef(false)
  const state = status.value
  const all = sessions.value
  const talks = conversations.value ?? []
  const copies = backups.value.value
  const isNew = all?.length === 0 && talks.length === 0
  isDrawn.current ||= waiting !== undefined && [hooks, backups].every(isAnswered)
  if (!state || !all || !waiting || !isDrawn.current) return <Loading />

  const snapshot = {
    status: state,
    sessions: all,
    conversations: talks,
    outbox: waiting,
    questions: questions.value ?? [],
    webhooks: hooks.value.value ?? [],
    ...(copies && { backups: copies }),
    now: now.value,
  }
  const concerns = concernsOf(snapshot)
  const title = t(concerns.some(isToDo) ? 'overview.attention' : 'overview.notes')
  return (
    <div class="page overview">
      <header class="page-head">
        <div>
          <h1 tabIndex={-1}>{t('nav.overview')}</h1>
          <Sentence {...sentenceOf(snapshot, concerns)} />
        </div>
      </header>
      <div class="columns">
        {concerns.length > 0 && <Attention title={title} concerns={concerns} onChange={backups.again} />}
        <Soon>
          <div class="news">
            {!isNew && may('history') && (
              <>
                <Activity />
                <Recent conversations={talks} />
              </>
            )}
            {!isNew && copies && (copies.folder ?? copies.newest) && (
              <Backups status={copies} onChange={backups.again} />
            )}
          </div>
          <div class="bots">
            {all.length > 0 && (
              <Accounts status={state} sessions={all} conversations={talks} outbox={waiting} />
            )}
            {all.length === 0 && (talks.length > 0 ? <LoggedOut conversations={talks} /> : <Welcome />)}
            {state.sandbox_phone && isOwner() && <Sandbox />}
          </div>
        </Soon>
      </div>
    </div>
  )
}

const Sandbox = () => (
  <div class="notice sandbox">
    <Icon name="phone" />
    <div>
      <p>{t('overview.sandbox')}</p>
      <a href={phonePath} target="_blank" rel="noopener">
        {t('overview.sandbox_phone')}
      </a>
    </div>
  </div>
)

const noEndpoints = async () => []
const noBackups: typeof askBackups = async () => ({})
const isAnswered = ({ value, error }: ReturnType<typeof useAnswer>) =>
  value.value !== undefined || error.value !== undefined

/** The overall state in one sentence. */
function Sentence({ tone, text }: Judgement) {
  const lastOnlineAt = useSignal(timeNow())
  const isOnline = online.value
  useEffect(() => {
    if (!isOnline) lastOnlineAt.value = timeNow()
  }, [isOnline, lastOnlineAt])
  return (
    <div class={`sentence ${isOnline ? tone : 'calm'}`} role="status">
      <p>
        <Icon name={tone === 'good' ? 'check' : tone === 'calm' ? 'clock' : 'warn'} size={18} />
        {text}
      </p>
      {!isOnline && <p class="soft small">{t('overview.as_of', { when: whole(lastOnlineAt.value) })}</p>}
    </div>
  )
}

/** A grey placeholder of the same size, so that nothing moves when the content comes. */
const Loading = () => (
  <div class="page overview">
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{t('nav.overview')}</h1>
        <p class="skeleton line" />
      </div>
    </header>
    <LoadingRows />
  </div>
)
