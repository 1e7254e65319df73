/** The audit log: who did what, newest first. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { keys, loadKeys } from '../access/keys.ts'
import { type Answer, call } from '../api.ts'
import { errorText } from '../errors.ts'
import { type TextKey, t } from '../i18n.ts'
import { callerName, may } from '../rights.ts'
import { stamp, timeNow } from '../times.ts'
import { Choice } from '../ui/choice.tsx'
import { Icon } from '../ui/icon.tsx'
import { PageHead } from '../ui/list-page.tsx'
import { type Look, Time } from '../ui/marks.tsx'
import { useWork } from '../ui/work.ts'

type Line = Answer<'list_audit'>[number]

/** The lines that are loaded at a time. */
const pageSize = 100
const hourMs = 3_600_000

/** Hours to show; 0: all. */
const spans: readonly [hours: number, text: TextKey][] = [
  [0, 'audit.span_all'],
  [1, 'audit.span_hour'],
  [24, 'audit.span_day'],
  [24 * 7, 'audit.span_week'],
  [24 * 30, 'audit.span_month'],
]

export function Audit() {
  /** `key <id>`, or a principal; '' for all. */
  const caller = useSignal('')
  const hours = useSignal(0)
  const lines = useSignal<readonly Line[] | undefined>(undefined)
  const hasMore = useSignal(false)
  const failure = useSignal<unknown>(undefined)
  const { busy, work } = useWork(error => {
    failure.value = error
  })
  const load = async (before?: number) => {
    const [by, span] = [caller.peek(), hours.peek()]
    const [principal, key] = by.split(' ')
    const page = await call('list_audit', {
      ...(key !== undefined ? { key } : principal !== '' && { principal }),
      ...(span > 0 && { since: Math.round(timeNow() - span * hourMs) }),
      ...(before !== undefined && { before }),
      limit: pageSize,
    })
    // Drop the answer to an earlier choice.
    if (by !== caller.peek() || span !== hours.peek()) return load(before)
    failure.value = undefined
    hasMore.value = page.length === pageSize
    lines.value = before === undefined ? page : [...(lines.peek() ?? []), ...page]
  }
  const again = () => void work(() => load())
  useEffect(again, [caller.value, hours.value])
  useEffect(() => {
    if (may('keys')) loadKeys().catch(() => {})
  }, [])
  const all = lines.value
  return (
    <div class="page sessions audit">
      <PageHead
        title={t('nav.audit')}
        about={t('audit.about')}
        action={
          <button type="button" class="button" aria-disabled={busy.value} onClick={again}>
            <Icon name="renew" />
            {t('audit.reload')}
          </button>
        }
      />
      <section class="card account-table" aria-label={t('nav.audit')}>
        <header>
          <Choice
            label={t('audit.who')}
            value={caller.value}
            onChange={value => {
              caller.value = value
            }}
          >
            <option value="">{t('audit.everybody')}</option>
            {callersOf(all ?? []).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </Choice>
          <Choice
            label={t('audit.when')}
            value={String(hours.value)}
            onChange={value => {
              hours.value = Number(value)
            }}
          >
            {spans.map(([value, text]) => (
              <option key={value} value={value}>
                {t(text)}
              </option>
            ))}
          </Choice>
        </header>
        {failure.value !== undefined && (
          <p class="notice bad" role="alert">
            <Icon name="warn" />
            {errorText(failure.value).title}
          </p>
        )}
        {!all && failure.value === undefined && <p class="soft none">{t('status.loading')}</p>}
        {all?.length === 0 && <p class="soft none">{t('audit.none')}</p>}
        {all && all.length > 0 && <Table lines={all} />}
        {all && hasMore.value && (
          <p class="none">
            <button
              type="button"
              class="button"
              aria-disabled={busy.value}
              onClick={() => work(() => load(all.at(-1)?.id))}
            >
              {t('audit.older')}
            </button>
          </p>
        )}
      </section>
    </div>
  )
}

/** Returns the callers to choose from: those without a key, and the keys that are known here. */
function callersOf(lines: readonly Line[]): [value: string, name: string][] {
  const known = new Map(['owner', 'panel', 'stdio', 'open'].map(kind => [kind, callerName(kind)]))
  for (const { id, name } of keys.value ?? []) known.set(`key ${id}`, callerName(`key:${id}`, name))
  for (const { principal, name } of lines) {
    const [kind, id] = principal.split(':')
    const isOfKey = id !== undefined && (kind === 'key' || kind === 'panel')
    const value = isOfKey ? `key ${id}` : principal
    if (!known.has(value)) known.set(value, callerName(isOfKey ? `key:${id}` : principal, name))
  }
  return [...known]
}

const Table = ({ lines }: { lines: readonly Line[] }) => (
  <table>
    <thead>
      <tr>
        <th scope="col">{t('audit.when')}</th>
        <th scope="col">{t('audit.who')}</th>
        <th scope="col">{t('audit.what')}</th>
        <th scope="col">{t('audit.outcome')}</th>
        <th scope="col" class="wide">
          {t('audit.address')}
        </th>
      </tr>
    </thead>
    <tbody>
      {lines.map(line => (
        <Row key={line.id} line={line} />
      ))}
    </tbody>
  </table>
)

function Row({ line }: { line: Line }) {
  const { at, principal, name, operation, subject, outcome, address, count } = line
  return (
    <tr>
      <td class="small">
        <Time at={at}>{stamp(at)}</Time>
      </td>
      <td>
        <bdi>{callerName(principal, name)}</bdi>
      </td>
      <td>
        <code>{operation}</code>
        {count !== undefined && <span class="soft small"> {t('audit.times', { count })}</span>}
        {subject !== undefined && <bdi class="soft small block foreign">{subject}</bdi>}
      </td>
      <td>
        <Outcome outcome={outcome} />
      </td>
      <td class="wide soft small">
        <bdi>{address}</bdi>
      </td>
    </tr>
  )
}

const outcomes: Readonly<Record<string, Look>> = {
  done: { tone: 'good', text: 'audit.done' },
  accepted: { tone: 'good', text: 'delivery.accepted' },
  queued: { tone: '', text: 'delivery.queued' },
  sending: { tone: '', text: 'delivery.sending' },
  denied: { tone: 'bad', text: 'audit.denied' },
}

/** The outcome in a word. Codes of errors stay as they are: they are in the documentation. */
function Outcome({ outcome }: { outcome: string | undefined }) {
  if (outcome === undefined) return <span class="soft small">{t('audit.open')}</span>
  const look = outcomes[outcome]
  return <span class={`badge ${look?.tone ?? 'warn'}`}>{look ? t(look.text) : <code>{outcome}</code>}</span>
}
