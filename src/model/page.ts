/** Pages of lists that are short most often: a number to return, and a number to skip. */
import { optional } from './shapes.ts'

/** Number of entries of a page, unless a caller says otherwise. */
const defaultLimit = 1000
/** Maximum of a page, for callers that need the whole list. */
export const mostOnPage = 100_000

export interface ListPage {
  limit?: number | undefined
  offset?: number | undefined
}

/** Input of an operation that lists. @param what what it lists, for the docs */
export const pageInput = (what: string) => ({
  limit: optional.between(
    1,
    mostOnPage,
    `Maximum number of ${what} to return. If there are as many, ask for the rest.`,
    {
      default: defaultLimit,
    },
  ),
  offset: optional.between(0, Number.MAX_SAFE_INTEGER, `Number of ${what} to skip, from the first.`, {
    default: 0,
  }),
})

export type PageBounds = Record<'limit' | 'offset', number>

/** Returns how many entries a page has at most, and how many are before it. */
export const boundsOf = ({ limit = defaultLimit, offset = 0 }: ListPage): PageBounds => ({ limit, offset })

/** Returns one page of a list. */
export function pageOf<T>(all: readonly T[], page: ListPage): T[] {
  const { limit, offset } = boundsOf(page)
  return all.slice(offset, offset + limit)
}

/** Returns where the page after a full one begins; undefined if the page is the last one. */
export const nextOffset = ({ limit = defaultLimit, offset = 0 }: ListPage, found: readonly unknown[]) =>
  found.length < limit ? undefined : offset + limit

/** Header of an answer over HTTP with the address of the next page, relative to this one. */
export async function linkNext(
  _gateway: unknown,
  input: ListPage,
  found: readonly unknown[],
): Promise<Record<string, string> | undefined> {
  const offset = nextOffset(input, found)
  if (offset === undefined) return undefined
  const query = Object.entries({ ...input, offset }).map(([key, value]) => [key, String(value)])
  return { link: `<?${new URLSearchParams(query)}>; rel="next"` }
}
