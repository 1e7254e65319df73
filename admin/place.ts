/** The state in the URL: parameters, and on the conversations page the conversation, the search, the message to show. */
import { useMemo } from 'preact/hooks'
import { useLocation, useSearch } from 'wouter-preact'
import { herePath, navigate } from './service-urls.ts'

/** The filters of a search. `since` and `until` are local days (yyyy-mm-dd), both inclusive. */
export interface Filter {
  account?: string
  person?: string
  kind?: string
  since?: string
  until?: string
}
const filters = ['account', 'person', 'kind', 'since', 'until'] as const

/** The tabs of the list. */
export const shows = ['all', 'unread', 'waiting', 'open'] as const
export type Show = (typeof shows)[number]

export interface Place {
  session: string
  /** '' while no conversation is open. */
  userId: string
  show: Show
  /** The search text. */
  q: string
  /** Row id of the message to show. */
  m: number | undefined
  filter: Filter
  /** The kind of media in the gallery that replaces the messages; '' for the messages. */
  media: string
}

const decoded = (part: string | undefined): string => {
  try {
    return decodeURIComponent(part ?? '')
  } catch {
    return part ?? ''
  }
}

// The router decodes only some of the escapes, so this reads the URL itself.
function read(): Place {
  const [, , session, user] = herePath().split('/')
  const query = new URLSearchParams(location.search)
  const m = Number(query.get('m') ?? '')
  const filter: Filter = {}
  for (const key of filters) if (query.get(key)) filter[key] = query.get(key)!
  // The URL of an account without a user shows the conversations of that account.
  if (session && !user) filter.account ??= decoded(session)
  return {
    session: decoded(session),
    userId: decoded(user),
    show: shows.find(one => one === query.get('show')) ?? 'all',
    q: query.get('q') ?? '',
    m: Number.isSafeInteger(m) && m > 0 ? m : undefined,
    filter,
    media: query.get('media') ?? '',
  }
}

/** Returns the place in the current URL. The component renders again when the URL changes. */
export function usePlace(): Place {
  const [path] = useLocation()
  const search = useSearch()
  // `path` and `search` change with the URL.
  return useMemo(read, [path, search])
}

/** Returns a parameter of the current URL, '' without it. The component renders again when it changes. */
export const useParam = (name: string): string => new URLSearchParams(useSearch()).get(name) ?? ''

/** Returns the URL of the open page, without `base`, with other parameters; '' takes one out. */
export function withParams(params: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(params)) {
    if (value === '') query.delete(name)
    else query.set(name, value)
  }
  const text = query.toString()
  return `${herePath()}${text && `?${text}`}`
}

/** Changes parameters of the URL: filters, and what is open beside the list. */
export const setParams = (params: Readonly<Record<string, string>>): void =>
  navigate(withParams(params), { replace: true })

/** The `state` of a navigation that puts the focus into the search field. */
export const searchNow = { search: true }

/** Returns the URL of a place, without `base`. */
export function hrefOf({ session, userId, show = 'all', q, m, filter, media }: Partial<Place>): string {
  const query = new URLSearchParams({
    ...(show !== 'all' && { show }),
    ...(q && { q }),
    ...Object.fromEntries(Object.entries(filter ?? {}).filter(([, value]) => value !== '')),
    ...(media && { media }),
    ...(m !== undefined && { m: String(m) }),
  }).toString()
  const path = userId ? `/${encodeURIComponent(session ?? '')}/${encodeURIComponent(userId)}` : ''
  return `/conversations${path}${query && `?${query}`}`
}
