/**
 * Reads svc's data directory before a move without changing it; it need not exist. Also makes session names
 * that are valid and free in it.
 */
import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { badArgument } from '../model/error.ts'
import { type BotInfo, normalizeSessionName, sessionKeyOf } from '../model/session.ts'
import { attempt } from '../platform/fields.ts'
import { isInside, realPathOf } from '../platform/files.ts'
import { createInspection } from '../storage/sqlite/inspection.ts'
import { openSealer } from '../storage/sqlite/secret-state.ts'
import { listNames } from './source.ts'

/** A session of svc. Contains secrets. */
export type TargetSession = BotInfo & { name: string }

export interface Target {
  sessions: TargetSession[]
  /** `sessionKeyOf` of each name that is used in the directory. */
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
export async function inspectTarget({
  into,
  from,
  secretKey,
}: {
  into: string
  from: string
  secretKey?: string | undefined
}): Promise<Target> {
  await rejectOverlap(into, from)
  const names = (await listNames(into)) ?? []
  if (names.includes(dataFiles.sandbox)) throw sandboxTargetError(into)
  const taken = new Set<string>()
  for (const name of names) if (!(await isLeftover(join(into, name)))) taken.add(sessionKeyOf(name))
  const { sessions } = await createInspection(into, await openSealer(into, secretKey)).listSessions()
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
  const names = await listNames(folder).catch(() => undefined)
  return names?.every(name => leftovers.test(name)) === true
}

const leftovers = /^contexts\.json$|^(token|contexts)\.json\.[0-9a-f]{12}\.tmp$/

const sandboxTargetError = (into: string) =>
  badArgument('--base-path', `${into} belongs to the sandbox`, {
    hint: 'Real accounts and sandbox accounts cannot share a folder: choose another folder.',
  })

/** Rejects a target inside the source, since nothing in the source may change. */
async function rejectOverlap(into: string, from: string): Promise<void> {
  if (!isInside(await realpath(from), await realPathOf(into))) return
  throw badArgument('--base-path', `${into} is the folder to move from, or lies in it`, {
    hint: 'Choose another data directory for svc.',
  })
}

const maxCharacters = 60
const maxBytes = 190

/** Returns the name itself if svc allows it, else a similar name. */
export function toSafeSessionName(name: string): string {
  const kept = name
    .normalize('NFC')
    .replace(/[^\p{L}\p{M}\p{N}._-]+/gu, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
    // A combining mark without its letter.
    .replace(/^\p{M}+/u, '')
  const asIs = parseName(name)
  if (asIs !== undefined) return asIs
  const short = shorten(kept) || 'session'
  return parseName(short) ?? `_${short}`
}

/** Returns the first free name of `name`, `name-2`, `name-3` …, and adds it to `taken`. */
export function takeFreeName(name: string, taken: Set<string>): string {
  for (let nth = 1; ; nth++) {
    const tried = nth === 1 ? name : `${nth > 1 ? shorten(name) : name}-${nth}`
    if (taken.has(sessionKeyOf(tried))) continue
    taken.add(sessionKeyOf(tried))
    return tried
  }
}

const parseName = (name: string): string | undefined =>
  name === '' ? undefined : attempt(() => normalizeSessionName(name))

/** Shortens a name so that a number can follow it. */
function shorten(name: string): string {
  const encoder = new TextEncoder()
  let kept = [...name].slice(0, maxCharacters)
  while (encoder.encode(kept.join('')).length > maxBytes) kept = kept.slice(0, -1)
  return kept.join('').replace(/[.-]+$/, '')
}
