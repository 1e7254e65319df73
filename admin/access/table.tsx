/** The keys as a table. A row opens its detail. */
import { isolated, listed, t } from '../i18n.ts'
import { withParams } from '../place.ts'
import { ago, relative } from '../times.ts'
import { Time } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { RowLink, Table } from '../ui/rows.tsx'
import type { Asked } from './ask.tsx'
import type { Key } from './keys.ts'
import { wordText } from './words.ts'

interface TableProps {
  all: readonly Key[]
  onAsk(question: Asked): void
}

const columns = [
  ['access.name'],
  ['access.may', 'wide'],
  ['access.last_used'],
  ['access.expires', 'wide'],
] as const

export const KeyTable = ({ all, onAsk }: TableProps) => (
  <Table columns={columns}>
    <tbody>
      {all.map(item => (
        <Row key={item.id} item={item} onAsk={onAsk} />
      ))}
    </tbody>
  </Table>
)

function Row({ item, onAsk }: { item: Key; onAsk(question: Asked): void }) {
  const { id, name, status, last_used_at } = item
  const actions: Action[] = [
    { id: 'rotate', label: t('access.rotate'), icon: 'renew', run: () => onAsk({ what: 'rotate', item }) },
    {
      id: 'revoke',
      label: t('access.revoke'),
      icon: 'close',
      danger: true,
      run: () => onAsk({ what: 'revoke', item }),
    },
  ]
  return (
    <tr>
      <th scope="row">
        <RowLink href={withParams({ key: id })}>
          <bdi>{name}</bdi>
        </RowLink>
        <div class="narrow soft small">
          <span class="block">{mayText(item)}</span>
          <Scope item={item} />
        </div>
      </th>
      <td class="wide cell">
        <span class="block">{mayText(item)}</span>
        <Scope item={item} />
      </td>
      <td class="soft">
        {last_used_at === undefined ? (
          t('sessions.never')
        ) : (
          <Time at={last_used_at}>{ago(last_used_at)}</Time>
        )}
      </td>
      <td class="wide soft">
        <Until item={item} />
      </td>
      <td>
        {status !== 'revoked' && (
          <Menu label={t('session.menu', { name: isolated(name) })} actions={actions} />
        )}
      </td>
    </tr>
  )
}

const mayText = ({ can, tools = [] }: Key): string => listed([...can.map(wordText), ...tools])

/** The accounts of a key, as it is shown: those that are logged out have only their id. */
export const accountsOf = ({ sessions }: Key): string[] | undefined =>
  sessions?.map(({ bot_id, session }) => session ?? t('access.logged_out', { id: bot_id }))

/** In a row, what the key is limited to. */
function Scope({ item }: { item: Key }) {
  const accounts = accountsOf(item)
  const { users } = item
  if (!accounts && !users) return null
  const words = [
    ...(accounts ? accounts.map(isolated) : []),
    ...(users ? [t('access.users_count', { count: users.length })] : []),
  ]
  return <span class="soft small block cut">{t('access.only', { names: listed(words) })}</span>
}

/** When a key ends, or ended. */
export function Until({ item: { expires_at, revoked_at } }: { item: Key }) {
  if (revoked_at !== undefined)
    return (
      <Time at={revoked_at}>
        {t('access.status_revoked')} · {ago(revoked_at)}
      </Time>
    )
  if (expires_at === undefined) return <>{t('access.expires_never')}</>
  return <Time at={expires_at}>{relative(expires_at)}</Time>
}
