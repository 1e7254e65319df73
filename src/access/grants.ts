/** What a new key may do: its maker chooses it, and can give no more than it has itself. */
import {
  type Grant,
  grantableRights,
  isWhole,
  type KeyLimits,
  presets,
  type Right,
  type Scope,
  serviceRights,
} from '../model/access.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { NewKeyInput } from '../model/key.ts'
import { normalizeTopicName } from '../model/topic-name.ts'

/**
 * Returns the grant of a new key.
 *
 * @param scope its accounts and users
 * @throws SvcError `invalid_arguments` for rights that must not be combined
 */
export function createGrant(
  { can = [], tools = [], limits, topics }: Pick<NewKeyInput, 'can' | 'tools' | 'limits' | 'topics'>,
  scope: Scope,
): Grant {
  const rights = new Set(can.flatMap(rightsOfWord))
  const sends = rights.has('send') || rights.has('draft') || tools.includes('send')
  if (rights.has('approve') && sends && !can.includes('all'))
    throw badArgument('can', 'approve cannot be combined with sending: who asks does not decide', {
      hint: 'Make two keys.',
    })
  if (rights.has('draft') && (rights.has('send') || tools.includes('send')))
    throw badArgument(
      'can',
      'draft cannot be combined with sending: a person approves every send of a draft key',
      {
        hint: 'Leave out draft, or the right to send.',
      },
    )
  const broad = serviceRights.filter(right => rights.has(right))
  if (broad.length > 0 && !isWhole(scope))
    throw badArgument('can', `${broad.join(' and ')} cannot be limited to sessions or users`, {
      hint: 'Name the other rights one by one, or leave out the sessions and users.',
    })
  if (rights.has('notify') && topics === undefined && !can.includes('all'))
    throw badArgument('topics', 'expected the topics that the key may notify')
  if (topics !== undefined && !rights.has('notify'))
    throw badArgument('topics', 'expected together with the right notify')
  return {
    rights: [...rights],
    ...scope,
    ...(topics && { topics: [...new Set(topics.map(normalizeTopicName))] }),
    ...(tools.length > 0 && { tools: [...new Set(tools)] }),
    ...(limits && Object.keys(limits).length > 0 && { limits }),
  }
}

const rightsOfWord = (word: string): readonly Right[] =>
  Object.hasOwn(presets, word)
    ? presets[word as keyof typeof presets]
    : grantableRights.filter(right => right === word)

/** @throws SvcError `forbidden` if a grant exceeds that of its maker */
export function rejectWider(grant: Grant, own: Grant): void {
  const extra = [
    ...grant.rights.filter(right => !ownsRight(own, right)),
    ...(grant.tools ?? []).filter(tool => !ownsTool(own, tool)),
  ]
  if (extra.length > 0)
    throw new SvcError('forbidden', `your key does not have this itself: ${extra.join(', ')}`, {
      hint: 'GET /me shows what your key may do.',
    })
  for (const [part, words] of [
    ['bots', 'sessions'],
    ['users', 'users'],
    ['topics', 'topics'],
  ] as const) {
    const most = own[part]
    // A key that may not notify has no topics.
    if (part === 'topics' && !grant.rights.includes('notify')) continue
    if (most && !grant[part]?.every(one => most.includes(one)))
      throw new SvcError('forbidden', `your key is limited to certain ${words}`, {
        hint: `Name some of the ${words} of your key.`,
      })
  }
  const limits = Object.entries(own.limits ?? {}) as [keyof KeyLimits, number][]
  for (const [limit, most] of limits)
    if ((grant.limits?.[limit] ?? Number.POSITIVE_INFINITY) > most)
      throw new SvcError('forbidden', `your key has the limit ${limit} ${most}`, {
        hint: 'Give the new key the same limit, or a lower one.',
      })
}

/** A key that may send may also give the right to send what a person approves. */
const ownsRight = ({ rights }: Grant, right: Right): boolean =>
  rights.includes(right) || (right === 'draft' && rights.includes('send'))

/** The right of a tool has the same name, except for one. */
const ownsTool = ({ rights, tools }: Grant, tool: string): boolean =>
  tools?.includes(tool) === true ||
  rights.some(right => right === (tool === 'rename_session' ? 'rename' : tool))
