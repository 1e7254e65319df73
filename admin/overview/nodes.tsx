/** The nodes of a cluster: who polls what, and how the database is replicated. */
import { useAnswer } from '../answers.ts'
import { type Answer, call } from '../api.ts'
import { gap, isolated, listed, t } from '../i18n.ts'
import { ago, whole } from '../times.ts'

type Node = Answer<'nodes'>['nodes'][number]
type Replication = NonNullable<Answer<'nodes'>['replication']>

/** Sessions of a node that are named. */
const named = 8

const askNodes = () => call('nodes', {})

/** The section of the settings; nothing if the store is in a data directory. */
export function Nodes() {
  const { nodes = [], replication } = useAnswer(askNodes, 5000).value.value ?? {}
  if (!replication) return null
  return (
    <section class="card nodes" aria-labelledby="nodes">
      <h2 id="nodes">{t('nodes.heading')}</h2>
      <ul>
        {nodes.map(node => (
          <NodeLine key={node.id} {...node} />
        ))}
      </ul>
      <Database {...replication} />
    </section>
  )
}

function NodeLine({ accounts, is_this, lease_left_ms, name, polls, sessions, since, url, version }: Node) {
  const lives = lease_left_ms > 0
  return (
    <li>
      <p>
        <strong class="foreign">{name}</strong>
        {is_this && <span class="soft small">{` ${t('nodes.this')}`}</span>}
      </p>
      <span class={`badge ${!lives ? 'bad' : polls ? 'good' : ''}`}>
        {!lives ? t('nodes.gone') : polls ? t('nodes.polls', { count: accounts }) : t('nodes.follows')}
      </span>
      {sessions.length > 0 && (
        <p class="soft small foreign">
          {listed(sessions.slice(0, named).map(isolated))}
          {accounts > named && `${gap()}${t('nodes.more', { count: accounts - named })}`}
        </p>
      )}
      <p class="soft small foreign" title={whole(since)}>
        {t('nodes.about', { version, since: ago(since) })}
        {url !== undefined && ` · ${url}`}
      </p>
    </li>
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
      <p>{names === '' ? t('nodes.asynchronous') : t('nodes.synchronous', { names: isolated(names) })}</p>
      {standbys.map(({ lag_ms, name, state, sync_state }) => (
        <p key={name} class="soft small foreign">
          {[name, state, sync_state].filter(Boolean).join(' · ')}
          {lag_ms !== undefined && ` · ${t('nodes.lag', { ms: lag_ms })}`}
        </p>
      ))}
      {!can_read && standbys.length === 0 && <p class="soft small">{t('nodes.unseen')}</p>}
      {rows > 0 && <p class="soft small">{t('nodes.unconfirmed', { count: rows })}</p>}
    </>
  )
}
