/** What one build of svc leaves in a data directory, and what the next one has to find there. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expectMatch } from '../../scripts/smoke/expected.ts'
import type { Json } from '../support/service.ts'
import { until } from '../support/until.ts'
import { comingAndGoing, invitations, keys, panel } from './access.ts'
import { agents, drafts, questions } from './asking.ts'
import { answered, type Home, type Kept, receive, type Story, shown } from './home.ts'
import { notices, subscriptions, webhooks } from './outward.ts'
import { talk } from './talk.ts'

const kept = { keys, questions, drafts }
/** What files have that no backup has, and what stands still after a restore. */
const inPlace = { talk, panel, invitations, comingAndGoing, agents, webhooks, subscriptions, notices }
const stories: Readonly<Record<string, Story>> = { ...kept, ...inPlace }

/** Answers as they were given before; message ids and texts, that is, and no times of now. */
export interface Left {
  /** When that was. */
  at: number
  token: string
  callback: Kept
  /** Of a node: the address of its simulated WeChat. */
  wechat?: string
  /** All messages, newest first. */
  messages: Json[]
  /** Received by none of the readers yet, by name. */
  unread: Record<string, string[]>
  /** Lines of the audit log, newest first. */
  audit: Json[]
  accounts: Json[]
  stories: Record<string, Json>
}

/** Lets everything happen that svc can be used for. */
export async function live(home: Home): Promise<Left> {
  await mkdir(join(home.dir, 'media'), { recursive: true })
  await writeFile(join(home.dir, 'media/note.txt'), 'a note\n')
  const left: Record<string, Json> = {}
  for (const [name, story] of Object.entries(stories)) {
    left[name] = await story.live(home)
  }
  const { file, mei } = left.talk
  // The index of all texts takes many at once.
  await home.phone('bulk', { from: mei, count: 300, text: 'one of many, {n}' })
  const last = await home.say(mei, 'that was all')
  await home.svc('backup', join(home.dir, '../first.tar'), '--force')
  const messages = await history(home)
  const received = messages.filter(({ direction }) => direction === 'received').reverse()
  const after = (is: (message: Json) => boolean) =>
    received.slice(received.findIndex(is) + 1).map(({ message_id }) => message_id)
  expectMatch(received.at(-1)?.message_id, last.message_id)
  return {
    ...{ at: home.now(), token: home.token!, callback: home.callback.kept, messages, stories: left },
    unread: {
      default: after(({ message_id }) => message_id === file),
      slow: after(({ text }) => text === 'the quarterly report, please'),
    },
    audit: await auditOf(home),
    accounts: await accountsOf(home),
  }
}

/** All of it is there and goes on. @throws Error that says what is not */
export async function stillAll(home: Home, left: Left): Promise<void> {
  await stillThere(home, left)
  await goOn(home, left, stories)
}

/** All that a backup has is there. What would go out by itself waits for a person. */
export async function stillRestored(home: Home, left: Left): Promise<void> {
  // A login that was under way is over.
  await stillThere(home, { ...left, accounts: left.accounts.filter(({ bot_id }) => bot_id !== undefined) })
  const hooks: Json[] = await home.ask('GET /webhooks')
  expectMatch([...new Set(hooks.map(({ status }) => status))], ['paused'])
  const { user } = left.stories.talk
  const waiting: Json[] = (await home.ask('GET /outbox')).filter(({ to_user }: Json) => to_user === user)
  await home.say(user, 'are you still there?')
  for (const { outbox_id } of waiting) await home.ask(`POST /outbox/${outbox_id}/approve`, {})
  await until('what waited goes out', 30_000, async () => {
    const texts = JSON.stringify(await shown(home, user))
    return texts.includes('for later') && texts.includes('以后再说')
  })
  const topics: Json[] = await home.ask('GET /topics')
  expectMatch(topics.map(({ name, people }) => [name, people.length]).sort(), [
    ['alerts', 1],
    ['later', 1],
  ])
  await goOn(home, left, kept)
}

async function stillThere(home: Home, left: Left): Promise<void> {
  expectMatch(await accountsOf(home), left.accounts)
  expectMatch(await history(home), left.messages)
  const lines = await auditOf(home)
  expectMatch(lines.slice(-left.audit.length), left.audit)
  // Every reader goes on where it was.
  for (const [consumer, ids] of Object.entries(left.unread)) {
    const got = await receive(home, ids.length, { consumer })
    expectMatch([consumer, got.map(({ message_id }) => message_id)], [consumer, ids])
    expectMatch(await answered(home, 'recv', { timeout: 0, consumer }), [])
  }
}

async function goOn(home: Home, left: Left, some: Readonly<Record<string, Story>>): Promise<void> {
  for (const [name, story] of Object.entries(some)) await story.still(home, left.stories[name])
}

const auditOf = async (home: Home): Promise<Json[]> =>
  (await home.ask('GET /audit?limit=1000')).map(({ id, operation, outcome, principal, subject }: Json) => ({
    ...{ id, operation, outcome, principal, subject },
  }))

const accountsOf = async (home: Home): Promise<Json[]> =>
  (await answered(home, 'sessions'))
    .map(({ name, bot_id, is_default, user_id }: Json) => ({ name, bot_id, is_default, user_id }))
    .toSorted((a: Json, b: Json) => a.name.localeCompare(b.name))

/** The whole history, of each message what never changes. */
async function history(home: Home): Promise<Json[]> {
  const all: Json[] = []
  for (let total = 1; all.length < total; ) {
    const page = await answered(home, 'history', { limit: 200, offset: all.length })
    all.push(...page.messages)
    total = page.total
  }
  return all.map(
    ({ id, message_id, session, direction, from_user, to_user, text, timestamp, msg_type }: Json) => ({
      ...{ id, message_id, session, direction, from_user, to_user, text, timestamp, msg_type },
    }),
  )
}
