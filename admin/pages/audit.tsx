/** The audit log: who did what, newest first. The URL names the filters and the line that is open. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { keys, loadKeys } from '../access/keys.ts'
import { call, type Input } from '../api.ts'
import { deedOptions, type Line, subjectOf } from '../audit/deeds.ts'
import { AuditDetail, AuditRow } from '../audit/line.tsx'
import { type TextKey, t } from '../i18n.ts'
import { sessions } from '../live.ts'
import { setParams, useParam } from '../place.ts'
import { callerName, may } from '../rights.ts'
import { timeNow } from '../times.ts'
import { Chip } from '../ui/chips.tsx'
import { Icon } from '../ui/icon.tsx'
import { later } from '../ui/lazy-page.tsx'
import { ListPage, Nothing, NothingFound, useLoading } from '../ui/list-page.tsx'
import { Rows } from '../ui/rows.tsx'
import { useWork } from '../ui/work.ts'
import { loadEndpoints } from '../webhooks/endpoints.ts'

/** The chip of the deeds, and what takes its place until it is loaded. */
const PickChip = later(
  async () => (await import('./conversations.tsx')).PickChip,
  undefined,
  () => (
    <span class="chip" aria-hidden="true">
      <span class="cut">{t('audit.what')}</span>
      <Icon name="chevron" size={14} />
    </span>
  ),
)

/** The lines that are loaded at a time. */
const pageSize = 100
const hourMs = 3_600_000

/** Spans to show, in hours. */
const spans: Readonly<Record<string, TextKey>> = {
  1: 'audit.span_hour',
  24: 'audit.span_day',
  168: 'search.week',
  720: 'search.month',
}
const outcomes: Readonly<Record<NonNullable<Input<'list_audit'>['outcome']>, TextKey>> = {
  done: 'audit.done',
  open: 'audit.open',
  denied: 'audit.denied',
  failed: 'audit.failed',
}

/**
 * The filters in the URL. `who` is a principal; that of a key stands for all calls with the key. Pages lead here with a
 * `message`, a row id; a line leads to all lines of its `user` or `request`, by their ids.
 */
function useFilters() {
  const filters = {
    who: useParam('who'),
    what: useParam('what'),
    outcome: useParam('outcome'),
    hours: useParam('hours'),
    account: useParam('account'),
    message: useParam('message'),
    user: useParam('user'),
    request: useParam('request'),
  }
  return { ...filters, isSet: Object.values(filters).some(value => value !== '') }
}
type Filters = ReturnType<typeof useFilters>

export function Audit() {
  const filters = useFilters()
  const { lines, hasMore, failure, again, older } = useLines(filters)
  const opened = Number(useParam('line'))
  const open = lines?.find(({ id }) => id === opened)
  useEffect(() => {
    if (may('keys')) loadKeys().catch(() => {})
    if (may('webhooks')) loadEndpoints().catch(() => {})
  }, [])
  return (
    <ListPage
      title={t('nav.audit')}
      about={t('audit.about')}
      all={lines}
      failure={failure}
      onRetry={again}
      filters={<Chips filters={filters} lines={lines ?? []} />}
      empty={
        filters.isSet ? (
          <NothingFound />
        ) : (
          <Nothing icon="audit" title={t('audit.none')} about={t('audit.none_about')} />
        )
      }
      after={open && <AuditDetail line={open} onClose={() => setParams({ line: '' })} />}
    >
      {lines => (
        <>
          <Rows label={t('nav.audit')} class="sentences">
            {lines.map(line => (
              <AuditRow key={line.id} line={line} />
            ))}
          </Rows>
          {hasMore && (
            <button type="button" class="button older" onClick={older}>
              {t('audit.older')}
            </button>
          )}
        </>
      )}
    </ListPage>
  )
}

function Chips({
  filters: { who, what, outcome, hours, account, message, user, request },
  lines,
}: {
  filters: Filters
  lines: readonly Line[]
}) {
  const named = (texts: Readonly<Record<string, TextKey>>) =>
    Object.entries(texts).map(([value, text]) => [value, t(text)] as const)
  const chip = (
    name: string,
    value: string,
    label: TextKey,
    options: Iterable<readonly [string, string]>,
  ) => (
    <Chip
      label={t(label)}
      any={t('audit.any')}
      value={value}
      options={options}
      onChange={next => setParams({ [name]: next })}
    />
  )
  return (
    <>
      {chip('who', who, 'audit.who', callersOf(lines))}
      <PickChip
        label={t('audit.what')}
        any={t('audit.any')}
        value={what}
        options={new Map(deedOptions())}
        onChange={next => setParams({ what: next })}
      />
      {chip('outcome', outcome, 'audit.outcome', named(outcomes))}
      {chip('hours', hours, 'search.time', named(spans))}
      {chip(
        'account',
        account,
        'search.account',
        (sessions.value ?? []).map(({ name }) => [name, name] as const),
      )}
      {message !== '' && chip('message', message, 'audit.message', [[message, message]])}
      {request !== '' && chip('request', request, 'audit.request', [[request, request]])}
      {user !== '' &&
        chip('user', user, 'search.person', [
          [user, lines.map(subjectOf).find(about => about.user === user)?.name ?? user],
        ])}
    </>
  )
}

/** Returns the callers to choose from: those without a key, the keys, and who is in the log. */
function callersOf(lines: readonly Line[]): Map<string, string> {
  const known = new Map([
    ['owner', callerName('owner')],
    ['panel', t('audit.in_panel')],
    ['stdio', callerName('stdio')],
    ['open', callerName('open')],
  ])
  for (const { id, name } of keys.value ?? []) known.set(`key:${id}`, name)
  for (const { principal, name } of lines) {
    const value = principal.replace(/^panel:/, 'key:')
    if (!known.has(value)) known.set(value, name ?? callerName(principal))
  }
  return known
}

function queryOf({
  who,
  what,
  outcome,
  hours,
  account,
  message,
  user,
  request,
}: Filters): Input<'list_audit'> {
  const [kind, key] = who.split(':')
  const isKey = kind === 'key' && key !== undefined
  return {
    ...(isKey && { key }),
    ...(who !== '' && !isKey && { principal: who }),
    ...(what !== '' && { operation: what }),
    ...(outcome in outcomes && { outcome: outcome as keyof typeof outcomes }),
    ...(Number(hours) > 0 && { since: Math.round(timeNow() - Number(hours) * hourMs) }),
    ...(account !== '' && { session: account }),
    ...(Number(message) > 0 && { message: Number(message) }),
    ...(user !== '' && { user }),
    ...(request !== '' && { request_id: request }),
    limit: pageSize,
  }
}

/** The lines of the filters, newest first. New ones come by themselves; older ones on request. */
function useLines(filters: Filters) {
  const key = JSON.stringify(filters)
  const wanted = useRef(key)
  wanted.current = key
  const held = useSignal<{ key: string; lines: readonly Line[]; hasMore: boolean } | undefined>(undefined)
  const load = async (before?: number) => {
    const page = await call('list_audit', { ...queryOf(filters), ...(before !== undefined && { before }) })
    // The person has chosen something else.
    if (wanted.current !== key) return
    const known = held.peek()?.key === key ? held.peek() : undefined
    const isFull = page.length === pageSize
    if (before === undefined) {
      const oldest = isFull ? page.at(-1)!.id : 0
      const rest = known?.lines.filter(({ id }) => id < oldest) ?? []
      held.value = { key, lines: [...page, ...rest], hasMore: rest.length > 0 ? known!.hasMore : isFull }
    } else held.value = { key, lines: [...(known?.lines ?? []), ...page], hasMore: isFull }
  }
  const { failure, again } = useLoading(() => load(), key)
  const { work } = useWork()
  const lines = held.value?.lines
  return {
    lines,
    hasMore: held.value?.hasMore === true,
    failure,
    again,
    older: () => void work(() => load(lines?.at(-1)?.id)),
  }
}
