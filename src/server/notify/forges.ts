/**
 * Events of GitHub, of Gitea and Forgejo, which send the same headers, and of GitLab: who did what where, what became of it, and
 * the address of it.
 *
 * @see https://docs.github.com/en/webhooks/webhook-events-and-payloads
 * @see https://github.com/octokit/webhooks/tree/main/payload-examples/api.github.com
 * @see https://docs.gitlab.com/user/project/integrations/webhook_events
 * @see https://github.com/go-gitea/gitea/blob/main/modules/structs/hook.go
 */
import type { Priority } from '../../model/topic.ts'
import type { SentNotice } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import { formatCount } from '../../platform/format.ts'
import { joinLines, objectAt, textAt, textOf } from './sent-notice.ts'

type Json = Readonly<Record<string, unknown>>

/** The header by which an event of GitHub is known. */
export const githubEvent = 'x-github-event'

/** Reads an event; undefined if the request is none. The id of its delivery is its fingerprint: a repeat has the same. */
export function readForge(headers: Headers, json: Json): SentNotice | undefined {
  const kind = textOf(json.object_kind)
  const name = headers.get(githubEvent)?.slice(0, 100)
  if (name === undefined && !(kind && (isObject(json.project) || headers.has('x-gitlab-event'))))
    return undefined
  const event = name === undefined ? fromGitlab(kind, json) : json
  const delivery = headers.get('x-github-delivery') ?? headers.get('x-gitlab-event-uuid') ?? ''
  const where = textAt(event.repository, 'full_name') || textAt(event.organization, 'login') || 'GitHub'
  const text =
    name === 'ping'
      ? readPing(event)
      : Array.isArray(event.commits)
        ? readPush(event)
        : readEvent(name ?? kind, event)
  return { title: where, priority: 'default', ...text, ...(delivery && { fingerprint: delivery }) }
}

/** Returns an event of GitLab in the form of GitHub's. */
function fromGitlab(kind: string, json: Json): Json {
  const thing = objectAt(json, 'object_attributes')
  const project = objectAt(json, 'project')
  const home = textAt(project, 'web_url')
  const [before, after] = [textOf(json.before), textOf(json.after)]
  const jobs = Array.isArray(json.builds) ? json.builds : []
  const failed = jobs.filter(job => textAt(job, 'status') === 'failed').map(job => textAt(job, 'name'))
  const of = ['merge_request', 'issue', 'snippet', 'commit'].find(key => isObject(json[key])) ?? ''
  const jobUrl = kind === 'build' && home ? `${home}/-/jobs/${textOf(json.build_id)}` : ''
  return {
    ...json,
    action: pastOf[textAt(thing, 'action')] ?? (textAt(thing, 'action') || textOf(json.action)),
    sender: { login: textAt(json.user, 'name') || textOf(json.user_name) || textOf(json.user_username) },
    repository: {
      full_name: textAt(project, 'path_with_namespace') || textOf(json.project_name),
      html_url: home,
    },
    total_commits: json.total_commits_count,
    deleted: isZero(after),
    compare: isZero(before) || isZero(after) || !home ? home : `${home}/-/compare/${before}...${after}`,
    commits: kind.endsWith('push') ? (json.commits ?? []) : undefined,
    ...(of && {
      [of]: { ...objectAt(json, of), number: textAt(json[of], 'iid'), html_url: textAt(json[of], 'url') },
    }),
    [kind]: {
      ...json,
      ...thing,
      number: textAt(thing, 'iid') || (kind === 'pipeline' ? textAt(thing, 'id') : ''),
      name: textAt(thing, 'name') || textOf(json.build_name) || textOf(json.name) || textOf(json.tag),
      body: textAt(thing, 'note'),
      detail:
        failed.length > 0
          ? `failed: ${failed.slice(0, maxItems).join(', ')}`
          : textOf(json.build_failure_reason),
      html_url: textAt(thing, 'url') || jobUrl || textOf(json.deployable_url) || textOf(json.url),
      head_branch: textAt(thing, 'ref') || (kind === 'build' ? textOf(json.ref) : ''),
      conclusion: /^(pipeline|build|deployment)$/.test(kind)
        ? textAt(thing, 'status') || textOf(json.build_status) || textOf(json.status)
        : undefined,
    },
  }
}
const isZero = (commit: string): boolean => /^0+$/.test(commit)
/** The words of GitLab for what was done. */
const pastOf: Readonly<Record<string, string>> = {
  open: 'opened',
  close: 'closed',
  reopen: 'reopened',
  merge: 'merged',
  update: 'updated',
  create: 'created',
  delete: 'deleted',
}

/** Keys of the thing that an event is about, where it is not the name of the event. */
const thingOf: Readonly<Record<string, string>> = {
  issues: 'issue',
  issue_comment: 'comment',
  commit_comment: 'comment',
  discussion_comment: 'comment',
  pull_request_review: 'review',
  pull_request_review_comment: 'comment',
  pull_request_review_thread: 'thread',
  fork: 'forkee',
  gollum: 'pages',
  secret_scanning_alert_location: 'alert',
  note: 'note',
}
/** Keys that every event may have. */
const surroundings = new Set([
  'repository',
  'sender',
  'organization',
  'installation',
  'enterprise',
  'changes',
  'project',
  'user',
])
const failures = new Set(['failure', 'failed', 'timed_out', 'startup_failure', 'error'])
const ongoing = new Set([
  '',
  'pending',
  'running',
  'created',
  'queued',
  'in_progress',
  'waiting',
  'waiting_for_resource',
  'preparing',
])
const maxItems = 5

type EventText = Pick<SentNotice, 'text' | 'click'> & { readonly priority?: Priority }

const readPing = (json: Json): EventText => ({
  text: joinLines('Events arrive here from now on.', textOf(json.zen)),
})

const firstLineOf = (text: string): string => text.split('\n', 1)[0]!.trim()

function readPush(json: Json): EventText {
  const commits = Array.isArray(json.commits) ? json.commits : []
  const total = Math.max(Number(json.total_commits) || 0, commits.length)
  const branch = textOf(json.ref).replace(/^refs\/(heads|tags)\//, '')
  const who = nameOf(json.pusher) || nameOf(json.sender)
  const done =
    json.deleted === true
      ? `deleted ${branch}`
      : `${json.forced === true ? 'force-pushed' : 'pushed'} ${formatCount(total, 'commit')} to ${branch}`
  const lines = commits.slice(0, maxItems).map(commit => `- ${firstLineOf(textAt(commit, 'message'))}`)
  const more = total > lines.length && lines.length > 0 ? `and ${total - lines.length} more` : ''
  const pages = [
    textOf(json.compare),
    textOf(json.compare_url),
    textAt(json.head_commit, 'url'),
    textAt(json.repository, 'html_url'),
  ]
  return { text: joinLines(`${who} ${done}`, ...lines, more), click: pages.find(Boolean) }
}

const nameOf = (user: unknown): string =>
  textAt(user, 'name') || textAt(user, 'login') || textAt(user, 'username')

/** What an event is about: the object of its name, that of an alert, or the first that only this event has. */
function thingIn(name: string, json: Json): Json {
  const keys = [
    thingOf[name] ?? name,
    'alert',
    ...Object.keys(json).filter(key => !surroundings.has(key) && isObject(json[key])),
  ]
  const key = keys.find(key => Object.hasOwn(json, key) && typeof json[key] === 'object') ?? ''
  return Array.isArray(json[key]) ? objectAt({ first: json[key][0] }, 'first') : objectAt(json, key)
}

/** Any other event: `alice opened pull request #7: Fix the door`, `workflow run completed: CI on main: failure`. */
function readEvent(name: string, json: Json): EventText {
  const thing = thingIn(name, json)
  const review = readReview(name, json)
  const isRemark = /comment|review|note|pull_request_(approved|rejected)/.test(name)
  const parent = isRemark ? objectAt(json, remarkedKeys.find(key => isObject(json[key])) ?? '') : thing
  const number = textAt(parent, 'number')
  const isStatus =
    (Object.hasOwn(thing, 'conclusion') && thing.conclusion !== undefined) || name.endsWith('status')
  const result = isStatus ? textAt(thing, 'conclusion') || textAt(thing, 'state') || textOf(json.state) : ''
  const branch = textAt(thing, 'head_branch')
  const about = joinWords([firstLineOf(titleOf(parent, thing, json)), branch && `on ${branch}`])
  const isMerged = thing.merged === true && json.action === 'closed'
  const action = review || (isMerged ? 'merged' : plain(textOf(json.action) || textAt(thing, 'action')))
  const what = joinWords([plain(review ? 'pull request' : (shortOf[name] ?? name)), number && `#${number}`])
  const done = isStatus ? [what, action] : [nameOf(json.sender), action, what]
  const isOngoing = isStatus && ongoing.has(result)
  const severity = severityOf(thing)
  const pages = [thing, parent].flatMap(one => [textAt(one, 'html_url'), textAt(one, 'target_url')])
  return {
    text: joinLines(
      [joinWords(done), about, result].filter(Boolean).join(': '),
      ...factsOf(name, thing, json, severity),
      isRemark ? textAt(thing, 'body') || textAt(thing, 'content') : '',
    ),
    click: [...pages, textOf(json.target_url), textAt(json.repository, 'html_url')].find(Boolean),
    ...((isOngoing || failures.has(result) || /critical|high/.test(severity)) && {
      priority: isOngoing ? 'min' : 'high',
    }),
  }
}

/** What a review says: `approved`, `requested changes on`, `commented on`; '' for another event. */
function readReview(name: string, json: Json): string {
  if (!/review(?!_comment|_thread)|pull_request_(approved|rejected)/.test(name)) return ''
  const state = `${name} ${textAt(json.review, 'state')} ${textAt(json.review, 'type')}`.toLowerCase()
  if (json.action === 'dismissed') return 'dismissed a review of'
  return /approved/.test(state)
    ? 'approved'
    : /changes_requested|rejected/.test(state)
      ? 'requested changes on'
      : 'reviewed'
}

/** Returns what a thing is called. */
function titleOf(parent: Json, thing: Json, json: Json): string {
  const found = [
    textAt(parent, 'title'),
    textAt(thing, 'title'),
    textAt(objectAt(thing, 'security_advisory'), 'summary'),
    textAt(objectAt(thing, 'rule'), 'description'),
    textAt(thing, 'secret_type_display_name'),
    textAt(thing, 'summary'),
    textAt(thing, 'name') || textAt(thing, 'full_name') || textAt(thing, 'tag_name'),
    textAt(thing, 'login') || textAt(objectAt(json, 'member'), 'login'),
    textAt(thing, 'affected_package_name') || textAt(thing, 'page_name') || textAt(parent, 'message'),
    textOf(json.context) || textAt(objectAt(thing, 'app'), 'name'),
  ]
  return found.find(Boolean) ?? textOf(json.ref)
}

const severityOf = (thing: Json): string =>
  textAt(objectAt(thing, 'security_advisory'), 'severity') ||
  textAt(objectAt(thing, 'security_vulnerability'), 'severity') ||
  textAt(objectAt(thing, 'rule'), 'security_severity_level') ||
  textAt(objectAt(thing, 'rule'), 'severity') ||
  textAt(thing, 'severity')

/** Returns the lines with what else a person wants to know of an event. */
function factsOf(name: string, thing: Json, json: Json, severity: string): string[] {
  const vulnerable = objectAt(objectAt(thing, 'dependency'), 'package')
  const packaged =
    textAt(vulnerable, 'name') ||
    textAt(objectAt(objectAt(thing, 'security_vulnerability'), 'package'), 'name')
  const version = textAt(objectAt(thing, 'package_version'), 'version') || textAt(thing, 'version')
  const facts = {
    package:
      packaged &&
      joinWords([packaged, textAt(vulnerable, 'ecosystem') && `(${textAt(vulnerable, 'ecosystem')})`]),
    severity,
    state: /alert$/.test(name) ? textAt(thing, 'state') : '',
    version,
    environment: textAt(thing, 'environment') || textAt(json.deployment, 'environment'),
    label: textAt(json.label, 'name'),
    assignee: textAt(json.assignee, 'login'),
    reviewer: textAt(json.requested_reviewer, 'login'),
    kind: textOf(json.ref_type),
    file:
      textAt(objectAt(thing, 'dependency'), 'manifest_path') ||
      textAt(objectAt(objectAt(thing, 'most_recent_instance'), 'location'), 'path'),
  }
  const about =
    textOf(json.description) ||
    textAt(thing, 'detail') ||
    (name.endsWith('status') ? textAt(thing, 'description') : '')
  return [about, ...Object.entries(facts).flatMap(([key, text]) => (text ? [`${key}: ${text}`] : []))]
}

/** Keys of the thing that a comment or a review is about. */
const remarkedKeys = ['pull_request', 'merge_request', 'issue', 'discussion', 'commit', 'snippet']
/** Names of events that say another thing. */
const shortOf: Readonly<Record<string, string>> = {
  issues: 'issue',
  build: 'job',
  note: 'comment',
  gollum: 'wiki page',
}

const plain = (word: string): string => word.replaceAll('_', ' ')

const joinWords = (words: readonly string[]): string => words.filter(Boolean).join(' ')
