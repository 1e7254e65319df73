/** The matters that need a person, one line each. Concerns of one kind are one matter. */
import { gap, type TextKey, t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { logInOneByOne } from '../sessions/one-by-one.ts'
import { left, now } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { type Concern, mattersOf } from './concerns.ts'
import { matterOf } from './matter.tsx'
import { type Matter, Row } from './row.tsx'

interface AttentionProps {
  title: string
  concerns: readonly Concern[]
  /** Called after a backup. */
  onChange(): void
}

export const Attention = ({ title, concerns, onChange }: AttentionProps) => (
  <section class="attention" aria-labelledby="attention">
    <h2 id="attention">{title}</h2>
    <ul class="rows">
      {mattersOf(concerns).map(some => (
        // A matter keeps its place while its number changes.
        <Row
          key={some[0]!.kind}
          {...(some.length === 1 ? matterOf(some[0]!, onChange) : together(some, onChange))}
        />
      ))}
    </ul>
  </section>
)

/** What is said about several concerns of a kind. */
const numbers: Readonly<Partial<Record<Concern['kind'], TextKey>>> = {
  lapsed: 'overview.says_lapsed',
  pending: 'overview.says_pending',
  muted: 'overview.says_muted',
  suspect: 'overview.suspects',
  webhook: 'overview.webhooks',
  closing: 'overview.closings',
  failed: 'overview.failures',
  waiting: 'overview.waitings',
}

/** The number of several concerns of a kind, and each of them in the detail. */
function together(some: readonly Concern[], onChange: () => void): Matter {
  const all = some.map(concern => matterOf(concern, onChange))
  const out = some.flatMap(one => (one.kind === 'expired' || one.kind === 'damaged' ? one.session : []))
  const [first] = some
  const time = first?.kind === 'waiting' ? left(now.value - first.since) : ''
  const count = some.reduce((sum, one) => sum + (one.kind === 'suspect' ? one.count : 1), 0)
  return {
    tone: all[0]!.tone,
    title: t(numbers[some[0]!.kind] ?? 'overview.logins', { count, time }),
    action:
      some[0]!.kind === 'waiting' ? (
        <Link class="button" href={hrefOf({ show: 'waiting' })}>
          {t('approvals.show')}
        </Link>
      ) : (
        out.length > 0 &&
        may('login') && (
          <button type="button" class="button" onClick={() => logInOneByOne(out)}>
            {t('sessions.login_chosen', { count })}
          </button>
        )
      ),
    note: [...new Set(all.flatMap(({ note }) => note ?? []))].join(gap()),
    about: (
      <ul class="each">
        {all.map(({ title, action, about }) => (
          <li key={title}>
            <div>
              <h4 class="foreign">{title}</h4>
              {about}
            </div>
            {action}
          </li>
        ))}
      </ul>
    ),
  }
}
