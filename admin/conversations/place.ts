/** What the address says of this page: the conversation, the search, the message to look at. */
import { useMemo } from 'preact/hooks'
import { useLocation, useSearch } from 'wouter-preact'

export interface Place {
  session: string
  /** '' while no conversation is open. */
  userId: string
  /** What is searched for. */
  q: string
  /** Row id of the message to look at. */
  m: number | undefined
}

const decoded = (part: string | undefined): string => {
  try {
    return decodeURIComponent(part ?? '')
  } catch {
    return part ?? ''
  }
}

// The router decodes some of the escapes only, so the address itself is read.
function read(): Place {
  const [, , session, user] = location.pathname.split('/')
  const query = new URLSearchParams(location.search)
  const m = Number(query.get('m') ?? '')
  return {
    session: decoded(session),
    userId: decoded(user),
    q: query.get('q') ?? '',
    m: Number.isSafeInteger(m) && m > 0 ? m : undefined,
  }
}

/** The address as it is; follows it. */
export function usePlace(): Place {
  const [path] = useLocation()
  const search = useSearch()
  // They say when the address is another one.
  return useMemo(read, [path, search])
}

/** State of a visit that begins in the search. */
export const searchNow = { search: true }

/** The address of a place. */
export function hrefOf({ session, userId, q, m }: Partial<Place>): string {
  const query = new URLSearchParams({ ...(q && { q }), ...(m !== undefined && { m: String(m) }) }).toString()
  const path = userId ? `/${encodeURIComponent(session ?? '')}/${encodeURIComponent(userId)}` : ''
  return `/conversations${path}${query && `?${query}`}`
}
