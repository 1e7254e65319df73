/** The consumers, for people who look after them. */
import { isWhole } from '../model/access.ts'
import type { ConsumerInfo } from '../model/consumer.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { RoomPart } from '../platform/runtime.ts'
import { type Store, startsAtFirst } from '../storage/store.ts'

/** Messages that are counted for a key with a scope, and consumers in a list. */
const [maxCounted, maxListed] = [10_000, 1000]

export class ConsumerList extends RoomPart<Pick<Store, 'backlog' | 'consumers' | 'keys'>> {
  /**
   * Lists the consumers that read last, those of keys after the others.
   *
   * @param which `of`: those of a key, by the names that it uses; `since` (Unix ms): those that read since then
   */
  async list({
    of,
    since,
    most = maxListed,
  }: {
    of?: string
    since?: number
    most?: number
  } = {}): Promise<ConsumerInfo[]> {
    const { backlog, keys } = this.ports
    const lags = await backlog.listLags(most, { of, since })
    const ofKeys = lags.some(({ consumer }) => consumer.includes('/')) ? await keys.list() : []
    const byId = new Map(ofKeys.map(key => [key.id, key]))
    const describe = async ({ consumer, messages, seen_at, acknowledges }: (typeof lags)[number]) => {
      const [id, own] = consumer.split('/')
      const key = own === undefined ? undefined : byId.get(id ?? '')
      const isScoped = key !== undefined && messages > 0 && !isWhole(key.grant)
      return withoutUndefined({
        name: of === undefined ? consumer : (own ?? consumer),
        key_name: of === undefined ? key?.name : undefined,
        unread: isScoped
          ? await backlog.countWaiting(consumer, { limit: maxCounted, scope: key.grant })
          : messages,
        last_read_at: seen_at,
        acknowledges,
      })
    }
    const all = await Promise.all(lags.map(describe))
    return all.sort((a, b) => b.last_read_at - a.last_read_at || a.name.localeCompare(b.name))
  }

  /** @throws SvcError `not_found`; `invalid_arguments` for one that would begin with the first message again */
  async remove(consumer: string): Promise<void> {
    if (startsAtFirst(consumer))
      throw badArgument('name', 'this one cannot be removed: the next call would get every message again')
    if (!(await this.ports.consumers.remove(consumer)))
      throw new SvcError('not_found', 'There is no consumer of this name', {
        hint: 'GET /consumers, or svc consumers, lists them.',
      })
  }
}
