/**
 * Events of GitHub, and of Gitea and Forgejo, which send the same headers: who did what where, and the address of it.
 *
 * @see https://docs.github.com/en/webhooks/webhook-events-and-payloads
 * @see https://github.com/octokit/webhooks/tree/main/payload-examples/api.github.com
 */
import type { Priority } from '../../model/topic.ts'
import type { SentNotice } from '../../operations/notices.ts'
import { formatCount } from '../../platform/format.ts'
import { joinLines, objectAt, textAt, textOf } from './sent-notice.ts'

type Json = Readonly<Record<string, unknown>>

/** Keys of the thing that an event is about, where it is not the name of the event. */
const thingOf: Readonly<Record<string, string>> = {
  issues: 'issue',
  issue_comment: 'comment',
  commit_comment: 'comment',
  discussion_comment: 'comment',
  pull_request_review: 'review',
  pull_request_review_comment: 'comment',
}
const failures = new Set(['failure', 'timed_out', 'startup_failure', 'error'])
const maxCommits = 5

/** Reads an event. `name` is the header X-GitHub-Event, `delivery` X-GitHub-Delivery: a repeat has the same. */
export function readGithub(name: string, delivery: string, json: Json): SentNotice {
  const event = name === 'ping' ? readPing(json) : name === 'push' ? readPush(json) : readEvent(name, json)
  const where = textAt(json.repository, 'full_name') || textAt(json.organization, 'login') || 'GitHub'
  return { title: where, priority: 'default', ...event, ...(delivery && { fingerprint: delivery }) }
}

type EventText = Pick<SentNotice, 'text' | 'click'> & { readonly priority?: Priority }

const readPing = (json: Json): EventText => ({
  text: joinLines('Events arrive here from now on.', textOf(json.zen)),
})

const firstLineOf = (text: string): string => text.split('\n', 1)[0]!.trim()

function readPush(json: Json): EventText {
  const commits = Array.isArray(json.commits) ? json.commits : []
  const branch = textOf(json.ref).replace(/^refs\/(heads|tags)\//, '')
  const who = textAt(json.pusher, 'name') || textAt(json.sender, 'login')
  const done =
    json.deleted === true
      ? `deleted ${branch}`
      : `${json.forced === true ? 'force-pushed' : 'pushed'} ${formatCount(commits.length, 'commit')} to ${branch}`
  const lines = commits.slice(0, maxCommits).map(commit => `- ${firstLineOf(textAt(commit, 'message'))}`)
  const more = commits.length > maxCommits ? `and ${commits.length - maxCommits} more` : ''
  return { text: joinLines(`${who} ${done}`, ...lines, more), click: textOf(json.compare) }
}

/** Any other event: `alice opened pull request #7: Fix the door`, `workflow run completed: CI on main: failure`. */
function readEvent(name: string, json: Json): EventText {
  const thing = objectAt(json, thingOf[name] ?? name)
  const isRemark = /comment|review/.test(name)
  const parent = isRemark ? objectAt(json, remarkedKeys.find(key => Object.hasOwn(json, key)) ?? '') : thing
  const number = textAt(parent, 'number')
  const isStatus = Object.hasOwn(thing, 'conclusion') || name.endsWith('status')
  const result = isStatus ? textAt(thing, 'conclusion') || textAt(thing, 'state') || textOf(json.state) : ''
  const names = [
    textAt(parent, 'title'),
    textAt(thing, 'name'),
    textAt(thing, 'tag_name'),
    textOf(json.context),
  ]
  const branch = textAt(thing, 'head_branch')
  const about = joinWords([firstLineOf(names.find(Boolean) ?? textOf(json.ref)), branch && `on ${branch}`])
  const action = thing.merged === true && json.action === 'closed' ? 'merged' : plain(textOf(json.action))
  const what = joinWords([plain(name === 'issues' ? 'issue' : name), number && `#${number}`])
  const done = isStatus ? [what, action] : [textAt(json.sender, 'login'), action, what]
  const isOngoing = isStatus && (!result || result === 'pending')
  return {
    text: joinLines(
      [joinWords(done), about, result].filter(Boolean).join(': '),
      isRemark ? textAt(thing, 'body') : '',
    ),
    click: [thing, parent, json.repository].map(one => textAt(one, 'html_url')).find(Boolean),
    ...((isOngoing || failures.has(result)) && { priority: isOngoing ? 'min' : 'high' }),
  }
}

/** Keys of the thing that a comment or a review is about. */
const remarkedKeys = ['pull_request', 'issue', 'discussion', 'commit']

const plain = (word: string): string => word.replaceAll('_', ' ')

const joinWords = (words: readonly string[]): string => words.filter(Boolean).join(' ')
