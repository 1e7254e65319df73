/** The topics as a table. A row opens the detail. */
import { isolated, number, t } from '../i18n.ts'
import { withParams } from '../place.ts'
import { clock, timeNow } from '../times.ts'
import { State } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { RowLink, Table } from '../ui/rows.tsx'
import { tell, tellError } from '../ui/toasts.tsx'
import type { Asked } from './ask.tsx'
import { type Topic, topicCalls } from './topics.ts'
import { contactsOf, lookOf, untilSaid } from './words.ts'

interface TableProps {
  all: readonly Topic[]
  onAsk(question: Asked): void
}

const columns = [
  ['access.name'],
  ['search.person', 'wide'],
  ['topics.waiting', 'number'],
  ['topics.sent', 'wide number'],
  ['access.status', 'wide'],
] as const

export const TopicTable = ({ all, onAsk }: TableProps) => (
  <Table columns={columns}>
    <tbody>
      {all.map(topic => (
        <Row key={topic.name} topic={topic} onAsk={onAsk} />
      ))}
    </tbody>
  </Table>
)

/** The hour at which a pause until tomorrow ends. */
const morning = 9

function Row({ topic, onAsk }: { topic: Topic; onAsk: TableProps['onAsk'] }) {
  const { name, sent, waiting } = topic
  const pause = (label: string, paused_until: number): Action => ({
    id: label,
    label,
    icon: paused_until ? 'pause' : 'play',
    run: () =>
      void topicCalls
        .change({ topic: name, paused_until })
        .then(() => tell(t(paused_until ? 'topics.paused_about' : 'topics.changed')), tellError),
  })
  const tomorrow = new Date(timeNow()).setHours(24 + morning, 0, 0, 0)
  const actions: Action[] = [
    ...(topic.paused_until === undefined
      ? [
          pause(t('topics.pause_hour'), timeNow() + 3_600_000),
          pause(t('topics.pause_tomorrow', { when: clock(tomorrow) }), tomorrow),
          pause(t('topics.pause'), untilSaid),
        ]
      : [pause(t('topics.resume'), 0)]),
    { id: 'change', label: t('topics.change'), icon: 'edit', run: () => onAsk({ what: 'change', topic }) },
    {
      id: 'remove',
      label: t('webhooks.remove'),
      icon: 'close',
      danger: true,
      run: () => onAsk({ what: 'remove', topic }),
    },
  ]
  const state = <State {...lookOf(topic)} />
  const contact = <bdi class="block cut">{contactsOf(topic)}</bdi>
  return (
    <tr>
      <th scope="row">
        <RowLink href={withParams({ topic: name })}>
          <bdi>{name}</bdi>
        </RowLink>
        <span class="narrow small sentence">
          {contact}
          {state}
        </span>
      </th>
      <td class="wide cell">{contact}</td>
      <td class="number">{number(waiting)}</td>
      <td class="wide number soft">{number(sent)}</td>
      <td class="wide cell sentence">{state}</td>
      <td>
        <Menu label={t('session.menu', { name: isolated(name) })} actions={actions} />
      </td>
    </tr>
  )
}
