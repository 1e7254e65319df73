/** Names of other programs' sessions as names of ours. */
import { sessionKey, sessionName } from '../model/session.ts'

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
