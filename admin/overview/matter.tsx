/** What each concern means, and what to do about it. */

import { preview } from '../conversations/message-summary.ts'
import { gap, isolated, type TextKey, t } from '../i18n.ts'
import { commandHere, nameOf } from '../live.ts'
import { hrefOf } from '../place.ts'
import { isOwner, may, mayApprove } from '../rights.ts'
import { beginNow, loginPath } from '../sessions/names.ts'
import { ago, left, now } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Link } from '../ui/link.tsx'
import { backupTrouble } from './backups.tsx'
import type { Concern } from './concerns.ts'
import type { Matter } from './row.tsx'
import { silenceOf } from './sentence.ts'

type Look<C> = (concern: C, onChange: () => void) => Matter
type Looks = { [K in Concern['kind']]: Look<Concern & { kind: K }> }

export const matterOf: Look<Concern> = (concern, onChange) =>
  (looks[concern.kind] as Look<Concern>)(concern, onChange)

/** Cuts a long text in the middle: its end says more than that. */
function shortened(text: string, most: number): string {
  const all = [...text]
  return all.length > most ? `${all.slice(0, most / 2).join('')}…${all.slice(-most / 2).join('')}` : text
}

const withoutScheme = (url: string) => url.replace(/^https?:\/\//, '')

const show = (href: string, text: TextKey, state?: object) => (
  <Link class="button" href={href} state={state}>
    {t(text)}
  </Link>
)
const login = (session: string, text: TextKey) => may('login') && show(loginPath(session), text, beginNow)
const command = (text: string, what: TextKey = 'overview.command') =>
  isOwner() && <Copyable text={text} what={t(what)} />

const loggedOut = ({ kind, session }: Concern & { kind: 'expired' | 'damaged' | 'lapsed' }): Matter => ({
  tone: kind === 'lapsed' ? 'warn' : 'bad',
  title: t(`overview.${kind}`, { name: isolated(session) }),
  action: login(session, 'sessions.login_again'),
  note: t(`sessions.is_${kind}`),
})

const looks: Looks = {
  expired: loggedOut,
  damaged: loggedOut,
  lapsed: loggedOut,
  pending: ({ session }) => ({
    tone: 'calm',
    title: t('overview.pending', { name: isolated(session) }),
    action: login(session, 'login.show_code'),
    note: t('overview.pending_about'),
  }),
  webhook: ({ status, endpoint: { id, url } }) => ({
    tone: status === 'failing' ? 'warn' : 'bad',
    title: t(`overview.webhook_${status}`, { url: isolated(shortened(withoutScheme(url), 24)) }),
    action: show(`/webhooks?webhook=${id}`, 'approvals.show'),
    note: t(`overview.webhook_${status}_about`),
    about: <Copyable text={url} what={t('webhooks.url')} />,
  }),
  store: ({ path }) => ({
    tone: 'bad',
    title: t('overview.store'),
    note: t('overview.store_about'),
    about: command(path, 'overview.directory'),
  }),
  tasks: ({ tasks }) => ({
    tone: 'warn',
    title: t('overview.tasks', { count: tasks.length }),
    note: t('overview.tasks_about'),
    about: (
      <ul class="each">
        {tasks.map(({ error, name, since }) => (
          <li key={name}>
            <div>
              <h4 class="foreign">{name}</h4>
              <p class="soft small">{ago(since)}</p>
              {error !== '' && <p class="foreign">{error}</p>}
            </div>
          </li>
        ))}
      </ul>
    ),
  }),
  backup: ({ backups }, onChange) => backupTrouble(backups, onChange),
  // Only the owner of another process can wake or end it, so this shows the commands.
  stalled: ({ pid }) => ({
    tone: 'bad',
    title: t('overview.stalled'),
    note:
      pid === undefined ? t('overview.stalled_about') : t('overview.stalled_process', { pid: String(pid) }),
    about: pid !== undefined && isOwner() && (
      <>
        <p>{t('overview.wake')}</p>
        {command(`kill -CONT ${pid}`)}
        <p>{t('overview.end')}</p>
        {command(`kill -KILL ${pid}`)}
      </>
    ),
  }),
  silent: ({ sessions }) => ({
    tone: 'warn',
    title:
      sessions.length === 1
        ? t('overview.silent_one_name', { name: isolated(sessions[0]!.name) })
        : t('overview.silent', { count: sessions.length }),
    note: silenceOf(sessions, now.value) + gap() + t('overview.silent_about'),
    about: command(commandHere('svc doctor')),
  }),
  muted: ({ session, because, since }) => ({
    tone: 'bad',
    title: t('overview.muted', { name: isolated(session) }),
    note: t(`overview.muted_${because}`, { when: ago(since) }) + gap() + t('overview.muted_about'),
  }),
  suspect: ({ session, count }) => ({
    tone: 'warn',
    title: t('overview.suspect', { count, name: isolated(session) }),
    note: t('overview.suspect_about'),
  }),
  closing: ({ closesAt, conversation: { session, user_id: userId, last_message } }) => ({
    tone: 'warn',
    title: t('overview.closing', {
      left: left(closesAt - now.value),
      name: isolated(shortened(nameOf(session, userId) ?? userId, 22)),
    }),
    action: show(hrefOf({ session, userId }), 'overview.answer'),
    about: <p class="soft foreign">{preview(last_message)}</p>,
  }),
  questions: ({ count, until }) => ({
    tone: 'bad',
    title: t('overview.questions', { count, left: left(until - now.value) }),
    action: show('/agents', 'overview.answer'),
  }),
  failed: ({ conversation: { session, user_id: userId } }) => ({
    tone: 'bad',
    title: t('overview.failed', { name: isolated(shortened(nameOf(session, userId) ?? userId, 22)) }),
    action: show(hrefOf({ session, userId }), 'approvals.show'),
  }),
  waiting: ({ since, conversation: { session, user_id: userId, last_message } }) => ({
    tone: 'calm',
    title: t('overview.waiting', {
      name: isolated(shortened(nameOf(session, userId) ?? userId, 22)),
      time: left(now.value - since),
    }),
    action: show(hrefOf({ session, userId }), 'overview.answer'),
    about: <p class="soft foreign">{preview(last_message)}</p>,
  }),
  approvals: ({ entries }) => {
    const mine = entries.filter(({ made_by }) => mayApprove(made_by)).length
    const title = mine > 0 ? 'overview.approvals' : 'overview.approvals_others'
    return {
      tone: mine > 0 ? 'warn' : 'calm',
      title: t(title, { count: mine || entries.length }),
      action:
        mine > 0 ? show('/approvals', 'approvals.review') : show('/approvals?show=others', 'approvals.show'),
    }
  },
  outbox: ({ entries }) => ({
    tone: 'calm',
    title: t('overview.queued', { count: entries.length }),
    action: show('/approvals?show=queued', 'approvals.show'),
    note: t('overview.queued_about'),
  }),
}
