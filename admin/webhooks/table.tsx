/** The webhooks as a table. A row opens the detail. */
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { isolated, listed, type TextKey, t } from '../i18n.ts'
import { withParams } from '../place.ts'
import { ago } from '../times.ts'
import { Middle, State, Time } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { RowLink, Table } from '../ui/rows.tsx'
import { tell, tellError } from '../ui/toasts.tsx'
import type { Asked } from './ask.tsx'
import { type WebhookEndpoint, webhooks } from './endpoints.ts'
import { statusLooks, typeTexts } from './words.ts'

interface TableProps {
  all: readonly WebhookEndpoint[]
  onAsk(question: Asked): void
}

/** Each chart is a call. */
const mostCharts = 30

const columns = [
  ['webhooks.address'],
  ['access.status'],
  ['webhooks.recent', 'wide'],
  ['webhooks.last', 'wide'],
] as const

export const WebhookTable = ({ all, onAsk }: TableProps) => (
  <Table columns={columns}>
    <tbody>
      {all.map((endpoint, nth) => (
        <Row key={endpoint.id} endpoint={endpoint} hasChart={nth < mostCharts} onAsk={onAsk} />
      ))}
    </tbody>
  </Table>
)

interface RowProps {
  endpoint: WebhookEndpoint
  hasChart: boolean
  onAsk(question: Asked): void
}

function Row({ endpoint, hasChart, onAsk }: RowProps) {
  const { id, status, session } = endpoint
  const { host, path } = partsOf(endpoint)
  return (
    <tr>
      <th scope="row">
        <RowLink href={withParams({ webhook: id })}>
          <span class="foreign">{host}</span>
        </RowLink>
        {path !== '/' && (
          <span class="soft small block">
            <Middle text={path} end={6} />
          </span>
        )}
        <span class="soft small block cut">
          {eventsOf(endpoint)}
          {session !== undefined && (
            <>
              {' · '}
              <bdi>{session}</bdi>
            </>
          )}
        </span>
      </th>
      <td>
        <State {...statusLooks[status]} />
      </td>
      <td class="wide">{hasChart && <Chart endpoint={endpoint} />}</td>
      <td class="wide soft">
        <LastDelivery endpoint={endpoint} />
      </td>
      <td>
        <Menu
          label={t('session.menu', { name: isolated(host + path) })}
          actions={actionsOf(endpoint, onAsk)}
        />
      </td>
    </tr>
  )
}

/** The address of an endpoint: the host is what people know it by. */
export function partsOf({ url }: WebhookEndpoint) {
  const { host, pathname, search } = new URL(url)
  return { host, path: pathname + search }
}

/** The events of an endpoint, in words. */
export const eventsOf = ({ types }: WebhookEndpoint): string =>
  types.length === 0 ? t('webhooks.events_all') : listed(types.map(type => t(typeTexts[type])))

export function LastDelivery({ endpoint: { last_success_at } }: { endpoint: WebhookEndpoint }) {
  if (last_success_at === undefined) return <>{t('sessions.never')}</>
  return <Time at={last_success_at}>{ago(last_success_at)}</Time>
}

/** Waits for a change, then shows `done` or the error. */
export const finish = (work: Promise<unknown>, done: TextKey) =>
  void work.then(() => tell(t(done)), tellError)

/** Whether nothing is delivered until somebody resumes it. */
export const isOff = ({ status }: WebhookEndpoint) => status === 'paused' || status === 'disabled'

function actionsOf(endpoint: WebhookEndpoint, onAsk: TableProps['onAsk']): Action[] {
  const pause: Action = {
    id: 'pause',
    label: t('webhooks.pause'),
    icon: 'pause',
    run: () => finish(webhooks.pause(endpoint.id), 'webhooks.paused'),
  }
  return [
    ...(isOff(endpoint) ? [] : [pause]),
    {
      id: 'replay',
      label: t('webhooks.replay_menu'),
      icon: 'clock',
      run: () => onAsk({ what: 'replay', endpoint }),
    },
    {
      id: 'rotate',
      label: t('webhooks.rotate'),
      icon: 'renew',
      run: () => onAsk({ what: 'rotate', endpoint }),
    },
    {
      id: 'remove',
      label: t('webhooks.remove'),
      icon: 'close',
      danger: true,
      run: () => onAsk({ what: 'remove', endpoint }),
    },
  ]
}

const bars = 24
const barWidth = 5
const height = 24

/** The newest deliveries, one bar each, the newest at the right: its height is the time, its colour the outcome. */
function Chart({ endpoint: { id, tries } }: { endpoint: WebhookEndpoint }) {
  const count = tries.done + tries.failed + tries.gave_up
  const { value } = useAnswer(
    useCallback(() => webhooks.log(id), [id, count]),
    30_000,
  )
  const all = value.value?.slice(0, bars) ?? []
  const failed = all.filter(({ outcome }) => outcome !== 'done').length
  const longest = Math.max(1, ...all.map(({ took_ms }) => took_ms))
  return (
    <svg
      class="tries"
      role="img"
      width={bars * barWidth}
      height={height}
      aria-label={t('webhooks.recent_about', { done: all.length - failed, failed })}
    >
      {Array.from({ length: bars }, (_, nth) => {
        const one = all[bars - 1 - nth]
        const tall = one ? 6 + Math.round(((height - 6) * one.took_ms) / longest) : 2
        return (
          <rect
            key={nth}
            class={one?.outcome}
            x={nth * barWidth}
            y={height - tall}
            width={barWidth - 2}
            height={tall}
            rx={1}
          />
        )
      })}
    </svg>
  )
}
