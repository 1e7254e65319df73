/**
 * Reads svc's data directory before a move without changing it; it need not exist. Also makes session names
 * that are valid and free in it.
 */
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { badArgument } from '../model/error.ts'
import { type BotInfo, sessionKey, sessionName } from '../model/session.ts'
import { liesIn, realWay } from '../platform/files.ts'
import { sightOf } from '../storage/sqlite/sight.ts'
import { namesIn } from './source.ts'

/** A session of svc. Contains secrets. */
export type TargetSession = BotInfo & { name: string }

export interface Target {
  sessions: TargetSession[]
  /** `sessionKey` of each name that is used in the directory. */
  taken: Set<string>
  /** Name of the default session. */
  defaultSession?: string
}

/**
 * Reads the data directory.
 *
 * @throws SvcError `invalid_arguments` if it belongs to the sandbox, or is the source or lies in it; the
 * system's error
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

/**
 * Returns true for a session folder without credentials, which an interrupted move or logout leaves: its
 * name is free.
 */
async function isLeftover(folder: string): Promise<boolean> {
  const names = await namesIn(folder).catch(() => undefined)
  return names?.every(name => leftovers.test(name)) === true
}

const leftovers = /^contexts\.json$|^(token|contexts)\.json\.[0-9a-f]{12}\.tmp$/

const isSandbox = (into: string) =>
  badArgument('--base-path', `${into} belongs to the sandbox`, {
    hint: 'Real accounts and sandbox accounts cannot share a folder: choose another folder.',
  })

/** Rejects a target inside the source, since nothing in the source may change. */
async function refuseOverlap(into: string, from: string): Promise<void> {
  if (!liesIn(await realpath(from), await realWay(into))) return
  throw badArgument('--base-path', `${into} is the folder to move from, or lies in it`, {
    hint: 'Choose another data directory for svc.',
  })
}

const longestCharacters = 60
const longestBytes = 190

/** Returns the name itself if svc allows it, else a similar name. */
export function safeSessionName(name: string): string {
  const kept = name
    .normalize('NFC')
    .replace(/[^\p{L}\p{M}\p{N}._-]+/gu, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
    // A combining mark without its letter.
    .replace(/^\p{M}+/u, '')
  const asIs = nameOrNone(name)
  if (asIs !== undefined) return asIs
  const short = cut(kept) || 'session'
  return nameOrNone(short) ?? `_${short}`
}

/** Returns the first free name of `name`, `name-2`, `name-3` …, and adds it to `taken`. */
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

/** Shortens a name so that a number can follow it. */
function cut(name: string): string {
  const encoder = new TextEncoder()
  let kept = [...name].slice(0, longestCharacters)
  while (encoder.encode(kept.join('')).length > longestBytes) kept = kept.slice(0, -1)
  return kept.join('').replace(/[.-]+$/, '')
}
