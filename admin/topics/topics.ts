/** The calls for topics, and their addresses. */
import { signal } from '@preact/signals'
import type { Topic } from '../../src/model/topic.ts'
import { call, type Input } from '../api.ts'
import { status } from '../live.ts'
import { elsewhere } from '../service-urls.ts'

export type { Priority, Topic, TopicState } from '../../src/model/topic.ts'

export type Person = Topic['people'][number]

/** All topics, by name; undefined until they are loaded. */
export const topics = signal<readonly Topic[] | undefined>(undefined)

let newestRequest = 0
/** Loads the list. Drops an answer that a later request has overtaken. @throws ApiError */
export async function loadTopics(): Promise<void> {
  const mine = ++newestRequest
  const all = await call('list_topics', {})
  if (mine === newestRequest) topics.value = all
}

/** Waits for a change and loads the list again. */
async function changed<T>(asked: Promise<T>): Promise<T> {
  const answer = await asked
  await loadTopics()
  return answer
}

/** Each throws `ApiError`. */
export const topicCalls = {
  show: (topic: string) => call('get_topic', { topic }),
  add: (given: Input<'add_topic'>) => changed(call('add_topic', given)),
  change: (given: Input<'change_topic'>) => changed(call('change_topic', given)),
  remove: (topic: string) => changed(call('remove_topic', { topic })),
}

/** Where programs send to. */
export function addressOf(topic: string): string | undefined {
  const { rest_url } = status.value ?? {}
  return rest_url && `${elsewhere(rest_url)}/notify/${encodeURIComponent(topic)}`
}
