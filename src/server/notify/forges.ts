/**
 * Events of GitHub, of Gitea and Forgejo, which send the same headers, of Gogs and Gitee, which have the same form, and of GitLab:
 * who did what where, what became of it, and the address of it.
 *
 * @see https://docs.github.com/en/webhooks/webhook-events-and-payloads
 * @see https://github.com/octokit/webhooks/tree/main/payload-examples/api.github.com
 * @see https://docs.gitlab.com/user/project/integrations/webhook_events
 * @see https://github.com/go-gitea/gitea/blob/main/modules/structs/hook.go
 * @see https://help.gitee.com/webhook/gitee-webhook-push-data-format
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
  const name = nameIn(headers)?.slice(0, 100)
  // Gitee also sends what robots of chat programs are sent.
  const isForChat = textOf(json.msgtype) !== '' || textOf(json.msg_type) !== ''
  if (isForChat || (name === undefined && !(kind && isObject(json.project)))) return undefined
  const event = name === undefined ? fromGitlab(kind, json) : json
  const delivery = headers.get('x-github-delivery') ?? headers.get('x-gitlab-event-uuid') ?? ''
  return {
    title: at(event, 'repository.full_name organization.login') || 'GitHub',
    priority: 'default',
    ...(name === 'ping'
      ? { text: joinLines('Events arrive here from now on.', textOf(json.zen)) }
      : Array.isArray(event.commits)
        ? readPush(event)
        : readEvent(name ?? kind, event)),
    ...(delivery && { fingerprint: delivery }),
  }
}

/** The events of Gitee, by the names that GitHub has for them. */
const ofGitee: Readonly<Record<string, string>> = {
  'Push Hook': 'push',
  'Tag Push Hook': 'push',
  'Issue Hook': 'issues',
  'Merge Request Hook': 'pull_request',
  'Note Hook': 'issue_comment',
}

const nameIn = (headers: Headers): string | undefined =>
  headers.get(githubEvent) ?? headers.get('x-gogs-event') ?? ofGitee[headers.get('x-gitee-event') ?? '']

/** Returns the first text that is at one of some paths, such as `alert.rule.severity`. */
function at(json: unknown, paths: string): string {
  for (const path of paths.split(' ')) {
    const keys = path.split('.')
    const text = textAt(keys.slice(0, -1).reduce<unknown>(objectAt, json), keys.at(-1)!)
    if (text) return text
  }
  return ''
}

/** Returns an event of GitLab in the form of GitHub's. */
function fromGitlab(kind: string, json: Json): Json {
  const thing = { ...json, ...objectAt(json, 'object_attributes') }
  const home = at(json, 'project.web_url')
  const [before, after] = [textOf(json.before), textOf(json.after)]
  const isEdge = isZero(before) || isZero(after) || !home
  const jobs = Array.isArray(json.builds) ? json.builds : []
  const failed = jobs.filter(job => textAt(job, 'status') === 'failed').map(job => textAt(job, 'name'))
  const about = ['merge_request', 'issue', 'snippet', 'commit'].find(key => isObject(json[key])) ?? 'parent'
  const isRun = /^(pipeline|build|deployment)$/.test(kind)
  return {
    ...json,
    action: kind === 'note' ? 'commented on' : at(thing, 'action'),
    sender: { login: at(json, 'user.name user_name user_username') },
    repository: { full_name: at(json, 'project.path_with_namespace'), html_url: home },
    deleted: isZero(after),
    compare: isEdge ? home : `${home}/-/compare/${before}...${after}`,
    commits: kind.endsWith('push') ? (json.commits ?? []) : undefined,
    [about]: {
      ...objectAt(json, about),
      number: at(json, `${about}.iid`),
      html_url: at(json, `${about}.url`),
    },
    [kind]: {
      ...thing,
      number: at(thing, kind === 'pipeline' ? 'iid id' : 'iid'),
      name: at(thing, 'build_name name'),
      body: at(thing, 'note'),
      detail:
        failed.length > 0
          ? `failed: ${failed.slice(0, maxItems).join(', ')}`
          : at(thing, 'build_failure_reason'),
      html_url:
        at(thing, 'url deployable_url') ||
        (kind === 'build' ? `${home}/-/jobs/${at(thing, 'build_id')}` : ''),
      head_branch: isRun ? at(thing, 'ref') : '',
      ...(isRun && { conclusion: at(thing, 'status build_status') }),
    },
  }
}
const isZero = (commit: string): boolean => /^0+$/.test(commit)
/** What was done, in the words of GitLab and Gitee, and of events that have no action. */
const pastOf: Readonly<Record<string, string>> = {
  open: 'opened',
  close: 'closed',
  reopen: 'reopened',
  merge: 'merged',
  update: 'updated',
  create: 'created',
  delete: 'deleted',
  fork: 'forked',
  comment: 'created',
}

/** Keys of the thing that an event is about, where it is not the name of the event. */
const thingOf: Readonly<Record<string, string>> = {
  issues: 'issue',
  pull_request_review: 'review',
  fork: 'forkee',
  gollum: 'pages',
}
/** Names of events that say another thing. */
const nameOfEvent: Readonly<Record<string, string>> = {
  issues: 'issue',
  build: 'job',
  gollum: 'wiki page',
  fork: 'repository',
}
/** Keys that every event may have. */
const surroundings = new Set(
  'repository sender organization installation enterprise changes project user'.split(' '),
)
/** Keys of the thing that a comment or a review is about. */
const remarkedKeys = ['pull_request', 'merge_request', 'issue', 'discussion', 'snippet', 'commit']
const failures = new Set('failure failed timed_out startup_failure error'.split(' '))
const ongoing = new Set(
  ' pending running created queued in_progress waiting waiting_for_resource preparing'.split(' '),
)
const maxItems = 5

type EventText = Pick<SentNotice, 'text' | 'click'> & { readonly priority?: Priority }

const firstLineOf = (text: string): string => text.split('\n', 1)[0]!.trim()

function readPush(json: Json): EventText {
  const commits = Array.isArray(json.commits) ? json.commits : []
  const total = Math.max(Number(at(json, 'total_commits total_commits_count')) || 0, commits.length)
  const branch = textOf(json.ref).replace(/^refs\/(heads|tags)\//, '')
  const who = at(json, 'pusher.name pusher.login pusher.username sender.login')
  const done =
    json.deleted === true
      ? `deleted ${branch}`
      : `${json.forced === true ? 'force-pushed' : 'pushed'} ${formatCount(total, 'commit')} to ${branch}`
  const lines = commits.slice(0, maxItems).map(commit => `- ${firstLineOf(textAt(commit, 'message'))}`)
  const more = total > lines.length && lines.length > 0 ? `and ${total - lines.length} more` : ''
  return {
    text: joinLines(`${who} ${done}`, ...lines, more),
    click: at(json, 'compare compare_url head_commit.url repository.html_url'),
  }
}

/** What an event is about: the object of its name, a comment or an alert, or the first that only this event has. */
function thingIn(name: string, json: Json): Json {
  const keys = [
    thingOf[name] ?? name,
    ...(name.includes('comment') ? ['comment'] : []),
    'alert',
    ...Object.keys(json).filter(key => !surroundings.has(key) && isObject(json[key])),
  ]
  const thing = keys
    .map(key => (Object.hasOwn(json, key) ? json[key] : undefined))
    .find(one => typeof one === 'object')
  return objectAt({ thing: Array.isArray(thing) ? thing[0] : thing }, 'thing')
}

/** Any other event: `alice opened pull request #7: Fix the door`, `workflow run completed: CI on main: failure`. */
function readEvent(name: string, json: Json): EventText {
  const thing = thingIn(name, json)
  const isRemark = /comment|review|note|pull_request_(approved|rejected)/.test(name)
  const parentKey = remarkedKeys.find(key => isObject(json[key])) ?? ''
  const parent = isRemark ? objectAt(json, parentKey) : thing
  const review = readReview(name, json)
  const both = { parent, thing, json }
  const isStatus = Object.hasOwn(thing, 'conclusion') || name.endsWith('status')
  const result = isStatus ? at(both, 'thing.conclusion thing.state json.state') : ''
  const branch = at(thing, 'head_branch')
  const about = joinWords([firstLineOf(at(both, titles)), branch && `on ${branch}`])
  const isMerged = thing.merged === true && json.action === 'closed'
  const said = at(both, 'json.action thing.action')
  const action = review || (isMerged ? 'merged' : plain(pastOf[said || name] ?? said))
  const isBare = review !== '' || name === 'note'
  const number = textAt(parent, 'number')
  const what = joinWords([
    plain(isBare ? parentKey : textOf(json.ref_type) || (nameOfEvent[name] ?? name)),
    number && `#${number}`,
  ])
  const done = isStatus ? [what, action] : [at(json, 'sender.login'), action, what]
  const isOngoing = isStatus && ongoing.has(result)
  const severity = at(thing, severities)
  const isUrgent = failures.has(result) || /critical|high/.test(severity)
  return {
    text: joinLines(
      [joinWords(done), about, result].filter(Boolean).join(': '),
      at(both, name.endsWith('status') ? 'json.description thing.description' : 'thing.detail'),
      ...facts.flatMap(([label, paths]) => (at(both, paths) ? [`${label}: ${at(both, paths)}`] : [])),
      severity && `severity: ${severity}`,
      /alert$/.test(name) ? `state: ${at(thing, 'state')}` : '',
      isRemark ? at(thing, 'body content') : '',
    ),
    click: at(
      both,
      'thing.html_url thing.target_url parent.html_url json.target_url json.repository.html_url',
    ),
    ...((isOngoing || isUrgent) && { priority: isOngoing ? 'min' : 'high' }),
  }
}

/** What a review says: `approved`, `requested changes on`; '' for another event. */
function readReview(name: string, json: Json): string {
  if (!/review(?!_comment|_thread)|pull_request_(approved|rejected)/.test(name)) return ''
  if (json.action === 'dismissed') return 'dismissed a review of'
  const state = `${name} ${at(json, 'review.state')} ${at(json, 'review.type')}`.toLowerCase()
  return /approved/.test(state)
    ? 'approved'
    : /changes_requested|rejected/.test(state)
      ? 'requested changes on'
      : 'reviewed'
}

/** Where events have what their thing is called, how severe it is, and what else a person wants to know. */
const titles =
  'parent.title thing.title thing.security_advisory.summary thing.rule.description thing.secret_type_display_name thing.summary thing.name thing.full_name thing.tag_name thing.login thing.affected_package_name thing.page_name parent.message json.context thing.app.name json.ref'
const severities =
  'security_advisory.severity security_vulnerability.severity rule.security_severity_level rule.severity severity'
const facts = [
  ['package', 'thing.dependency.package.name thing.security_vulnerability.package.name'],
  ['file', 'thing.dependency.manifest_path thing.most_recent_instance.location.path'],
  ['version', 'thing.package_version.version thing.version'],
  ['environment', 'thing.environment json.deployment.environment'],
  ['label', 'json.label.name'],
  ['assignee', 'json.assignee.login'],
  ['reviewer', 'json.requested_reviewer.login'],
] as const

const plain = (word: string): string => word.replaceAll('_', ' ')

const joinWords = (words: readonly string[]): string => words.filter(Boolean).join(' ')
