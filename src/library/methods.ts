/** Operations as methods: their arguments and answers come from the definitions. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Operation, TypedOperation } from '../operations/operation.ts'
import * as ofOutbox from '../operations/outbox.ts'
import type { GivenInput } from '../operations/schema.ts'
import * as ofWebhooks from '../operations/webhooks.ts'

/** What waits in the outbox, shared with every process of the data directory that has the store. */
export const outbox = {
  /** What waits, oldest first. */
  list: ofOutbox.listOutbox,
  /** What became of a queued send, until a week after the call. @throws SvcError `not_found` */
  get: ofOutbox.getOutbox,
  /** Takes back what has not gone out yet. @throws SvcError `not_found` */
  cancel: ofOutbox.cancelOutbox,
  /** Says yes to a send that waits for a person. @throws SvcError `not_found`, and what a send throws */
  approve: ofOutbox.approveOutbox,
}

/**
 * Webhook endpoints. Whichever program or service of the data directory polls delivers to them: this one from
 * `runBackground` on. All but `list` and `add` throw `not_found`.
 */
export const webhooks = {
  /** All of them, oldest first. */
  list: ofWebhooks.listWebhooks,
  get: ofWebhooks.getWebhook,
  /** Adds an endpoint, which gets what happens from now on. The answer shows the secret this once. */
  add: ofWebhooks.addWebhook,
  /** Delivers an event of type `webhook.test` now. */
  test: ofWebhooks.testWebhook,
  /** The newest tries, newest first. */
  log: ofWebhooks.webhookLog,
  /** Stops deliveries for now. */
  pause: ofWebhooks.pauseWebhook,
  /** Goes on from where it was, at once; also with one that svc switched off. */
  resume: ofWebhooks.resumeWebhook,
  /** A new secret; for a day deliveries are signed with that of before too. */
  rotate: ofWebhooks.rotateWebhook,
  /** Delivers everything again from an event or a moment on, and says how much that is. */
  replay: ofWebhooks.replayWebhook,
  /** With all that is kept of it. */
  remove: ofWebhooks.removeWebhook,
}

type InputOf<D> = D extends { input: infer I extends TSchema } ? GivenInput<I> : never
type AnswerOf<D> = D extends { output: infer O extends TSchema } ? Static<O> : never
type Keys<D> = D extends { library?: { positionals: infer P extends readonly string[] } } ? P : []
type Placed<I, P extends readonly string[]> = { -readonly [N in keyof P]: I[P[N] & keyof I] }
type Others<I> = keyof I extends never ? [] : Partial<I> extends I ? [others?: I] : [others: I]

/** An operation as a method: the keys that its definition places, then an object of the others. */
export type Method<D> = (
  ...given: [...Placed<InputOf<D>, Keys<D>>, ...Others<Omit<InputOf<D>, Keys<D>[number]>>]
) => Promise<AnswerOf<D>>

export type Methods<G> = { readonly [K in keyof G]: Method<G[K]> }

/** Every group is a field of `Svc`. */
export const groups = { outbox, webhooks }
export type Groups = { readonly [G in keyof typeof groups]: Methods<(typeof groups)[G]> }

type Invoke = (operation: TypedOperation<TObject, TSchema>, input: unknown) => Promise<unknown>

/** The methods of some operations, by their names there. */
export const methodsOf = <G extends Readonly<Record<string, unknown>>>(
  group: G,
  invoke: Invoke,
): Methods<G> =>
  Object.fromEntries(
    Object.entries(group).map(([name, operation]) => [
      name,
      async (...given: unknown[]) => invoke(operation as never, inputOf(operation as Operation, given)),
    ]),
  ) as unknown as Methods<G>

function inputOf({ library }: Operation, given: readonly unknown[]): Record<string, unknown> {
  const keys = library?.positionals ?? []
  const placed = Object.fromEntries(keys.map((key, nth) => [key, given[nth]]))
  return { ...(given[keys.length] as object | undefined), ...placed }
}
