/** To whom a send goes and from which account; who wrote it, and how long it waits. */
import type { OutboxEntry } from '../api.ts'
import { isolated, type TextKey, t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { callerName } from '../rights.ts'
import { ago, clock, day, now, relative } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { Time } from '../ui/marks.tsx'
import { Avatar, Who } from '../users/avatar.tsx'
import { RightBadge, rightOf } from '../users/reply-permission.tsx'
import { shelfOf } from './drafts.ts'

export function To({ entry }: { entry: OutboxEntry }) {
  const { session, to_user } = entry
  return (
    <header class="draft-to">
      <Avatar session={session} id={to_user} />
      <div class="grow">
        <div class="upper">
          <h2>
            <Who session={session} id={to_user} />
          </h2>
          <RightBadge right={rightOf(session, to_user)} full />
        </div>
        <p class="soft small facts">
          <span class="foreign">{t('approvals.from', { name: isolated(session) })}</span>
        </p>
        <Waits entry={entry} />
      </div>
      <Link
        class="button plain icon-only"
        href={hrefOf({ session, userId: to_user })}
        aria-label={t('approvals.open_talk')}
        title={t('approvals.open_talk')}
      >
        <Icon name="conversations" />
      </Link>
    </header>
  )
}

/** Who wrote it, when, and until when it waits. */
export function Origin({ entry }: { entry: OutboxEntry }) {
  const { created_at, expires_at, made_by = '', made_by_name } = entry
  return (
    <p class="soft small facts">
      {made_by === '' ? (
        <span>{t(shelfOf(entry) === 'queued' ? 'approvals.waiting' : 'approvals.draft')}</span>
      ) : (
        <span class="foreign" title={callerName(made_by, made_by_name)}>
          {t(shelfOf(entry) === 'queued' ? 'approvals.by' : 'approvals.draft_by', {
            maker: isolated(made_by_name ?? callerName(made_by)),
          })}
        </span>
      )}
      <Time at={created_at}>{ago(created_at)}</Time>
      <Time at={expires_at}>{t('overview.lapses', { when: relative(expires_at) })}</Time>
    </p>
  )
}

const reasons: Readonly<Record<string, TextKey>> = {
  user: 'approvals.waits_user',
  pace: 'approvals.waits_pace',
  refusal: 'approvals.waits_refusal',
  login: 'approvals.waits_login',
  retry: 'approvals.waits_retry',
  busy: 'approvals.waits_busy',
}

/** When it goes: the time that was planned, and what it waits for. */
function Waits({ entry: { not_before: at = 0, waits_for } }: { entry: OutboxEntry }) {
  const isPlanned = at > now.value && (waits_for === 'time' || waits_for === 'approval')
  const key = isPlanned ? 'approvals.planned' : waits_for && reasons[waits_for]
  return key ? <p class="small">{t(key, { when: `${day(at)} ${clock(at)}` })}</p> : null
}
