/** The nodes of a cluster: who polls what, whether another one can take over, and the state of the database. */
import { useAnswer } from '../answers.ts'
import { type Answer, call } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { setParams, useParam, withParams } from '../place.ts'
import { ago, whole } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Icon } from '../ui/icon.tsx'
import { Failure, LoadingRows, Nothing } from '../ui/list-page.tsx'
import { Fact, type Look, Middle, State, Time } from '../ui/marks.tsx'
import { Row, Rows } from '../ui/rows.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { nodesTrouble } from './trouble.ts'

type Node = Answer<'list_nodes'>['nodes'][number]
type Replication = NonNullable<Answer<'list_nodes'>['replication']>

const askNodes = () => call('list_nodes', {})

/** The group of the settings. */
export function Nodes() {
  const { value, error, again } = useAnswer(askNodes, 5000, 5000)
  const answer = value.value
  const chosen = useParam('node')
  if (!answer)
    return error.value === undefined ? (
      <LoadingRows count={3} />
    ) : (
      <Failure error={error.value} onRetry={again} />
    )
  if (!answer.replication)
    return <Nothing icon="overview" title={t('nodes.directory')} about={t('nodes.directory_about')} />
  const { nodes } = answer
  const all = nodes.reduce((sum, { accounts }) => sum + accounts, 0)
  const open = nodes.find(({ id }) => id === chosen)
  return (
    <>
      <Trouble {...answer} />
      <Rows label={t('nodes.heading')}>
        {nodes.map(node => (
          <NodeRow key={node.id} node={node} all={all} />
        ))}
      </Rows>
      <Database {...answer.replication} />
      {open && <NodeSheet {...open} />}
    </>
  )
}

function Trouble(answer: Answer<'list_nodes'>) {
  const trouble = nodesTrouble(answer)
  return (
    <div role="status">
      {trouble && (
        <div class={`notice ${trouble.tone}`}>
          <Icon name="warn" />
          <div>
            <h3>{t(trouble.title)}</h3>
            <p>{t(trouble.about, { name: isolated(trouble.name) })}</p>
          </div>
        </div>
      )}
    </div>
  )
}

const lookOf = ({ lease_left_ms, polls }: Node): Look =>
  lease_left_ms <= 0
    ? { tone: 'bad', text: 'nodes.gone' }
    : polls
      ? { tone: 'good', text: 'nodes.polls' }
      : { tone: '', text: 'nodes.follows' }

const leaseOf = ({ lease_left_ms: ms }: Node): string =>
  t(ms > 0 ? 'nodes.lease' : 'nodes.lease_over', { count: Math.max(1, Math.round(Math.abs(ms) / 1000)) })

const NodeRow = ({ node, all }: { node: Node; all: number }) => (
  <Row
    href={withParams({ node: node.id })}
    name={
      <>
        <bdi>{node.name}</bdi>
        {node.is_this && <span class="soft small">{` ${t('nodes.this')}`}</span>}
      </>
    }
    about={[leaseOf(node), t('nodes.about', { version: node.version, since: ago(node.since) })].join(' · ')}
  >
    <State {...lookOf(node)} />
    <span class="share">
      <span class="bar" aria-hidden="true">
        <span style={{ inlineSize: `${(100 * node.accounts) / Math.max(1, all)}%` }} />
      </span>
      {t('nodes.share', { count: node.accounts, all })}
    </span>
  </Row>
)

function NodeSheet(node: Node) {
  const { accounts, id, name, sessions, since, url, version } = node
  return (
    <Sheet title={isolated(name)} onClose={() => setParams({ node: '' })}>
      <dl>
        <Fact label={t('access.status')}>
          <State {...lookOf(node)} />
        </Fact>
        <Fact label={t('nodes.lease_name')}>{leaseOf(node)}</Fact>
        <Fact label={t('nodes.since')}>
          <Time at={since}>{whole(since)}</Time>
        </Fact>
        <Fact label={t('settings.version')}>{version}</Fact>
        {url !== undefined && (
          <Fact label={t('webhooks.address')}>
            <Copyable text={url} what={t('webhooks.address')} />
          </Fact>
        )}
        <Fact label={t('access.id')}>
          <Copyable text={id} what={t('access.id')} />
        </Fact>
      </dl>
      <div>
        <h3>{t('nav.sessions')}</h3>
        {accounts === 0 && <p class="soft">{t('nodes.no_accounts')}</p>}
        {accounts > 0 && (
          <Rows label={t('nav.sessions')}>
            {sessions.map(session => (
              <Row key={session} name={session} href={`/sessions/${encodeURIComponent(session)}`} />
            ))}
          </Rows>
        )}
        {accounts > sessions.length && (
          <p class="soft">{t('nodes.more', { count: accounts - sessions.length })}</p>
        )}
      </div>
    </Sheet>
  )
}

function Database({
  can_read,
  standbys,
  synchronous_standby_names: names,
  unconfirmed_rows: rows,
}: Replication) {
  return (
    <>
      <h3>{t('nodes.database')}</h3>
      <div class="card settings-rows database">
        <p>{names === '' ? t('nodes.asynchronous') : t('nodes.synchronous', { names: isolated(names) })}</p>
        {standbys.map(({ lag_ms, name, state, sync_state }) => (
          <p key={name}>
            <Middle text={name} />
            <span class="soft small">
              {[state, sync_state, lag_ms !== undefined && t('nodes.lag', { ms: lag_ms })]
                .filter(Boolean)
                .join(' · ')}
            </span>
          </p>
        ))}
        {!can_read && standbys.length === 0 && <p class="soft">{t('nodes.unseen')}</p>}
        {rows > 0 && <p class="soft">{t('nodes.unconfirmed', { count: rows })}</p>}
      </div>
    </>
  )
}
