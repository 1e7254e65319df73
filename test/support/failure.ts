/** Awaits a promise that must be rejected. */
import { SvcError } from '../../src/model/error.ts'

/**
 * Returns the error of a promise. `expect(promise).rejects` (Bun 1.4.5) instead runs the event loop inside
 * itself until the promise ends. If a server of this process receives a request at that moment, the request
 * gets another request's body, and its client waits in vain.
 *
 * @throws if the promise is fulfilled
 */
export async function failure(work: Promise<unknown>): Promise<Error> {
  try {
    await work
  } catch (error) {
    return error as Error
  }
  throw new Error('expected a rejection')
}

/** Returns the fields that an `invalid_arguments` error names, in order. */
export function fieldsOf(error: unknown): string[] {
  const errors: unknown = error instanceof SvcError ? error.details?.errors : undefined
  return Array.isArray(errors) ? errors.map(({ field }) => String(field)) : []
}

/** Returns the code of the SvcError that the work fails with. */
export const codeOf = async (work: Promise<unknown>): Promise<string | undefined> =>
  ((await failure(work)) as Partial<SvcError>).code
