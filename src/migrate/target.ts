/**
 * What stands in svc's data directory before a move, looked at without changing anything: it need not exist yet; and names
 * of other programs' sessions as names that are free in it.
 */
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { badArgument } from '../model/error.ts'
import { type BotInfo, sessionKey, sessionName } from '../model/session.ts'
import { liesIn, realWay } from '../platform/files.ts'
import { sightOf } from '../storage/sqlite/sight.ts'
import { namesIn } from './source.ts'

/** A session of ours. Secret. */
export type TargetSession = BotInfo & { name: string }

export interface Target {
  sessions: TargetSession[]
  /** `sessionKey` of the names in the directory that are not free. */
  taken: Set<string>
  /** The chosen default session. */
  defaultSession?: string
}

/**
 * Looks at the data directory.
 *
 * @throws SvcError `invalid_arguments` when it belongs to the sandbox, or is or lies in the source; the system's error
 */
export async function lookAtTarget(into: string, from: string): Promise<Target> {
  await refuseOverlap(into, from)
  const names = (await namesIn(into)) ?? []
  if (names.includes(dataFiles.sandbox)) throw isSandbox(into)
  const taken = new Set<string>()
  for (const name of names) if (!(await isLeftover(join(into, name)))) taken.add(sessionKey(name))
  const { sessions } = await sightOf(into).sessions()
  return {
    sessions: sessions.flatMap(({ name, bot }) => (bot ? { ...bot, name } : [])),
    taken,
    defaultSession: sessions.find(({ isDefault }) => isDefault)?.name,
  }
}

/** A session's folder without credentials, as a move or a logout that was killed leaves it: the name is free. */
async function isLeftover(folder: string): Promise<boolean> {
  const names = await namesIn(folder).catch(() => undefined)
  return names?.every(name => leftovers.test(name)) === true
}

const leftovers = /^contexts\.json$|^(token|contexts)\.json\.[0-9a-f]{12}\.tmp$/

const isSandbox = (into: string) =>
  badArgument('--base-path', `${into} belongs to the sandbox`, {
    hint: 'Real accounts and those of the sandbox never mix: choose another folder.',
  })

/** Nothing in the source is to change, so the target cannot lie in it. */
async function refuseOverlap(into: string, from: string): Promise<void> {
  if (!liesIn(await realpath(from), await realWay(into))) return
  throw badArgument('--base-path', `${into} is the folder to move from, or lies in it`, {
    hint: 'Choose another data directory for svc.',
  })
}

const longestCharacters = 60
const longestBytes = 190

/** The name as it is where it is one of ours; else the nearest that is. */
export function safeSessionName(name: string): string {
  const kept = name
    .normalize('NFC')
    .replace(/[^\p{L}\p{M}\p{N}._-]+/gu, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
    // A mark belongs to the letter before it.
    .replace(/^\p{M}+/u, '')
  const asIs = nameOrNone(name)
  if (asIs !== undefined) return asIs
  const short = cut(kept) || 'session'
  return nameOrNone(short) ?? `_${short}`
}

/** The first of `name`, `name-2`, `name-3` … that is not taken; it counts as taken from then on. */
export function freeName(name: string, taken: Set<string>): string {
  for (let nth = 1; ; nth++) {
    const tried = nth === 1 ? name : `${nth > 1 ? cut(name) : name}-${nth}`
    if (taken.has(sessionKey(tried))) continue
    taken.add(sessionKey(tried))
    return tried
  }
}

function nameOrNone(name: string): string | undefined {
  try {
    return name === '' ? undefined : sessionName(name)
  } catch {
    return undefined
  }
}

/** Short enough to take a number behind it. */
function cut(name: string): string {
  const encoder = new TextEncoder()
  let kept = [...name].slice(0, longestCharacters)
  while (encoder.encode(kept.join('')).length > longestBytes) kept = kept.slice(0, -1)
  return kept.join('').replace(/[.-]+$/, '')
}
