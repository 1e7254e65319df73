/** What needs this person: the same order as on the overview, each with its place. */
import { decided, outbox, questions } from '../answers.ts'
import { conversations, userOf } from '../live.ts'
import { hrefOf } from '../place.ts'
import { may, mayApprove } from '../rights.ts'
import { herePath } from '../service-urls.ts'
import { isFailed, waitsSince } from '../talks.ts'
import { timeNow } from '../times.ts'

/** Returns where the next thing is that needs this person, after the open one. */
export function nextNeed(): string {
  const asks = may('approve') && questions.value?.some(({ expires_at }) => expires_at > timeNow())
  const drafts = outbox.value?.filter(
    ({ made_by, outbox_id: id, waits_for }) =>
      waits_for === 'approval' && mayApprove(made_by) && !decided.value.has(id),
  )
  const talks = (conversations.value ?? []).map(one => ({
    failed: isFailed(one.last_message),
    since: waitsSince(one, userOf(one.session, one.user_id)),
    href: hrefOf({ session: one.session, userId: one.user_id }),
  }))
  const all = [
    ...(asks ? ['/agents'] : []),
    ...(drafts ?? []).map(({ outbox_id: id }) => `/approvals/${encodeURIComponent(id)}`),
    ...talks.filter(({ failed }) => failed).map(({ href }) => href),
    ...talks
      .filter(({ failed, since }) => !failed && since !== undefined)
      .sort((one, other) => one.since! - other.since!)
      .map(({ href }) => href),
  ]
  return all[(all.indexOf(herePath()) + 1) % all.length] ?? '/'
}
