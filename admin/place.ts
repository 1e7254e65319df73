/** What the address says of this page: the conversation, the search, the message to look at. */
import { useMemo } from 'preact/hooks'
import { useLocation, useSearch } from 'wouter-preact'
import { herePath } from './service-urls.ts'

/** What narrows a search; days as yyyy-mm-dd here, both inclusive. */
export interface Filter {
  account?: string
  person?: string
  kind?: string
  since?: string
  until?: string
}
const filters = ['account', 'person', 'kind', 'since', 'until'] as const

export interface Place {
  session: string
  /** '' while no conversation is open. */
  userId: string
  /** What is searched for. */
  q: string
  /** Row id of the message to look at. */
  m: number | undefined
  filter: Filter
  /** The kind of media that is looked through, instead of the messages; '' for none. */
  media: string
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
  const [, , session, user] = herePath().split('/')
  const query = new URLSearchParams(location.search)
  const m = Number(query.get('m') ?? '')
  const filter: Filter = {}
  for (const key of filters) if (query.get(key)) filter[key] = query.get(key)!
  // The address of an account alone: its conversations.
  if (session && !user) filter.account ??= decoded(session)
  return {
    session: decoded(session),
    userId: decoded(user),
    q: query.get('q') ?? '',
    m: Number.isSafeInteger(m) && m > 0 ? m : undefined,
    filter,
    media: query.get('media') ?? '',
  }
}

/** The address as it is; follows it. */
export function usePlace(): Place {
  const [path] = useLocation()
  const search = useSearch()
  // They say when the address is another one.
  return useMemo(read, [path, search])
}

/** Where the list and the chat come one after the other (styles/conversations.css has the same width). */
export const narrowly = '(max-width: 980px)'

/** State of a visit that begins in the search. */
export const searchNow = { search: true }

/** The address of a place. */
export function hrefOf({ session, userId, q, m, filter, media }: Partial<Place>): string {
  const query = new URLSearchParams({
    ...(q && { q }),
    ...Object.fromEntries(Object.entries(filter ?? {}).filter(([, value]) => value !== '')),
    ...(media && { media }),
    ...(m !== undefined && { m: String(m) }),
  }).toString()
  const path = userId ? `/${encodeURIComponent(session ?? '')}/${encodeURIComponent(userId)}` : ''
  return `/conversations${path}${query && `?${query}`}`
}
