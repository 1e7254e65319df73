/** The problems that need a person: what each means, what to do, and the button for it. */
import { useSignal } from '@preact/signals'
import { quoted } from '../commands.ts'
import { preview } from '../conversations/message-summary.ts'
import { gap, isolated, listed, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { hrefOf } from '../place.ts'
import { isOwner, may } from '../rights.ts'
import { beginNow, loginPath } from '../sessions/names.ts'
import { logInOneByOne } from '../sessions/one-by-one.ts'
import { ago, left, now } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Link } from '../ui/link.tsx'
import { set } from '../ui/set.ts'
import { BackupTrouble } from './backups.tsx'
import type { Concern } from './concerns.ts'
import { Entries } from './queue.tsx'
import { Row } from './row.tsx'
import { silenceOf } from './sentence.ts'

/** The others are shown on request. */
const shownAtFirst = 5

export function Attention({
  id,
  title,
  concerns,
  onChange,
}: {
  id: string
  title: string
  concerns: readonly Concern[]
  /** Called after a waiting send was approved or called off, and after a backup. */
  onChange(): void
}) {
  const all = useSignal(false)
  const visible = all.value ? concerns : concerns.slice(0, shownAtFirst)
  const hidden = concerns.length - visible.length
  return (
    <section class="attention card" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <ul>
        {visible.map(concern => (
          <li key={keyOf(concern)}>
            <One concern={concern} onChange={onChange} />
          </li>
        ))}
      </ul>
      {hidden > 0 && (
        <button type="button" class="button plain more" onClick={set(all, true)}>
          {t('overview.more', { count: hidden })}
        </button>
      )}
    </section>
  )
}

function keyOf(concern: Concern): string {
  if (concern.kind === 'expired' || concern.kind === 'damaged' || concern.kind === 'lapsed')
    return `session ${concern.session}`
  if (concern.kind === 'suspect' || concern.kind === 'muted') return `${concern.kind} ${concern.session}`
  if (concern.kind === 'pending') return `pending ${concern.session}`
  if (concern.kind === 'webhook') return `webhook ${concern.endpoint.id}`
  if (concern.kind !== 'closing') return concern.kind
  return `closing ${concern.conversation.session} ${concern.conversation.user_id}`
}

function One({ concern, onChange }: { concern: Concern; onChange(): void }) {
  switch (concern.kind) {
    case 'expired':
    case 'lapsed':
    case 'damaged': {
      const { session, kind } = concern
      return (
        <Row
          tone={kind === 'lapsed' ? 'warn' : 'bad'}
          icon={kind === 'damaged' ? 'file' : 'renew'}
          title={t(`overview.${kind}`, { name: isolated(session) })}
          action={
            may('login') && (
              <Link class="button primary" href={loginPath(session)} state={beginNow}>
                {t('sessions.login_again')}
              </Link>
            )
          }
        >
          <p class="soft">{t(`overview.${kind}_about`)}</p>
        </Row>
      )
    }
    case 'pending':
      return (
        <Row
          tone="calm"
          icon="clock"
          title={t('overview.pending', { name: isolated(concern.session) })}
          action={
            may('login') && (
              <Link class="button" href={loginPath(concern.session)} state={beginNow}>
                {t('login.show_code')}
              </Link>
            )
          }
        >
          <p class="soft">{t('overview.pending_about')}</p>
        </Row>
      )
    case 'webhook':
      return (
        <Row
          tone={concern.status === 'failing' ? 'warn' : 'bad'}
          icon="warn"
          title={t(`overview.webhook_${concern.status}`, { url: isolated(concern.endpoint.url) })}
          action={
            <Link class="button" href="/webhooks">
              {t('overview.webhook_show')}
            </Link>
          }
        >
          <p class="soft">{t(`overview.webhook_${concern.status}_about`)}</p>
        </Row>
      )
    case 'logins': {
      const { sessions } = concern
      return (
        <Row
          tone="bad"
          icon="renew"
          title={t('overview.logins', { count: sessions.length })}
          action={
            may('login') && (
              <button type="button" class="button primary" onClick={() => logInOneByOne(sessions)}>
                {t('sessions.login_chosen', { count: sessions.length })}
              </button>
            )
          }
        >
          <p class="soft cut">{listed(sessions.map(isolated))}</p>
        </Row>
      )
    }
    case 'store':
      return (
        <Row tone="bad" icon="warn" title={t('overview.store')}>
          <p class="soft">{t('overview.store_about')}</p>
          {isOwner() && <Copyable text={concern.path} what={t('overview.directory')} />}
        </Row>
      )
    case 'backup':
      return <BackupTrouble status={concern.backups} onChange={onChange} />
    case 'stalled':
      return <Stalled concern={concern} />
    case 'silent':
      return <Silent concern={concern} />
    case 'muted':
      return (
        <Row tone="bad" icon="question" title={t('overview.muted', { name: isolated(concern.session) })}>
          <p class="soft">
            {t(`overview.muted_${concern.because}`, { when: ago(concern.since) })}
            {gap()}
            {t('overview.muted_about')}
          </p>
        </Row>
      )
    case 'suspect':
      return (
        <Row
          tone="warn"
          icon="question"
          title={t('overview.suspect', { count: concern.count, name: isolated(concern.session) })}
        >
          <p class="soft">{t('overview.suspect_about')}</p>
        </Row>
      )
    case 'closing': {
      const { conversation, closesAt } = concern
      const { session, user_id: userId, last_message } = conversation
      return (
        <Row
          tone="warn"
          icon="clock"
          title={t('overview.closing', { left: left(closesAt - now.value) })}
          action={
            <Link class="button" href={hrefOf({ session, userId })}>
              {t('overview.answer')}
            </Link>
          }
        >
          <p class="soft cut" title={nameOf(session, userId) ?? userId}>
            <bdi>{preview(last_message)}</bdi>
          </p>
        </Row>
      )
    }
    case 'approvals':
      return (
        <Row
          tone="warn"
          icon="send"
          title={t(may('approve') ? 'overview.approvals' : 'overview.approvals_others', {
            count: concern.entries.length,
          })}
        >
          <p class="soft">{t('overview.approvals_about')}</p>
          <Entries entries={concern.entries} onChange={onChange} />
        </Row>
      )
    case 'outbox':
      return (
        <Row tone="calm" icon="send" title={t('overview.queued', { count: concern.entries.length })}>
          <p class="soft">{t('overview.queued_about')}</p>
          <details class="queue">
            <summary>{t('overview.queued_show')}</summary>
            <Entries entries={concern.entries} onChange={onChange} />
          </details>
        </Row>
      )
  }
}

function Silent({ concern: { sessions, path } }: { concern: Concern & { kind: 'silent' } }) {
  const [first] = sessions
  return (
    <Row
      tone="warn"
      icon="clock"
      title={
        first && sessions.length === 1
          ? t('overview.silent_one_name', { name: isolated(first.name) })
          : t('overview.silent', { count: sessions.length })
      }
    >
      <p class="soft">{silenceOf(sessions, now.value)}</p>
      <p class="soft">{t('overview.silent_about')}</p>
      {isOwner() && <Copyable text={`svc doctor -d ${quoted(path)}`} what={t('overview.command')} />}
    </Row>
  )
}

/** Only the owner of another process can wake or end it, so this shows the commands. */
function Stalled({ concern: { pid } }: { concern: Concern & { kind: 'stalled' } }) {
  return (
    <Row tone="bad" icon="warn" title={t('overview.stalled')}>
      <p class="soft">
        {pid === undefined
          ? t('overview.stalled_about')
          : t('overview.stalled_process', { pid: String(pid) })}
      </p>
      {pid !== undefined && isOwner() && (
        <dl class="commands">
          <div>
            <dt>{t('overview.wake')}</dt>
            <dd>
              <Copyable text={`kill -CONT ${pid}`} what={t('overview.command')} />
            </dd>
          </div>
          <div>
            <dt>{t('overview.end')}</dt>
            <dd>
              <Copyable text={`kill -KILL ${pid}`} what={t('overview.command')} />
            </dd>
          </div>
        </dl>
      )}
    </Row>
  )
}
