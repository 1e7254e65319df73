/** What is wrong with the nodes of a cluster. */
import type { Answer } from '../api.ts'
import type { TextKey } from '../i18n.ts'

interface Trouble {
  tone: 'warn' | 'bad'
  title: TextKey
  about: TextKey
  /** The only node that receives. */
  name: string
}

/** That nobody receives messages, or that nobody would take over. Nothing if the store is in a data directory. */
export function nodesTrouble({ nodes, replication }: Answer<'list_nodes'>): Trouble | undefined {
  const receiving = nodes.filter(({ lease_left_ms, polls }) => polls && lease_left_ms > 0)
  if (!replication || receiving.length > 1) return undefined
  const [only] = receiving
  return only
    ? { tone: 'warn', title: 'nodes.alone', about: 'nodes.alone_about', name: only.name }
    : { tone: 'bad', title: 'nodes.none', about: 'nodes.none_about', name: '' }
}
