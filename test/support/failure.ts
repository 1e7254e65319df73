/** What a promise was rejected with. */
import { SvcError } from '../../src/model/error.ts'

/**
 * Waits as everybody else waits. `expect(promise).rejects` does not: until the promise is over it runs the event loop inside
 * of itself (Bun 1.4.5), and where that happens while a server of the same process is being handed a request, the body of
 * that request is another's when it goes on, and whoever waits for its answer waits in vain meanwhile.
 *
 * @throws when the work succeeds
 */
export async function failure(work: Promise<unknown>): Promise<Error> {
  try {
    await work
  } catch (error) {
    return error as Error
  }
  throw new Error('expected a rejection')
}

/** The fields that an error of `invalid_arguments` names, in order. */
export function fieldsOf(error: unknown): string[] {
  const errors: unknown = error instanceof SvcError ? error.details?.errors : undefined
  return Array.isArray(errors) ? errors.map(({ field }) => String(field)) : []
}

/** The code of the SvcError that the work fails with. */
export const codeOf = async (work: Promise<unknown>): Promise<string | undefined> =>
  ((await failure(work)) as Partial<SvcError>).code
