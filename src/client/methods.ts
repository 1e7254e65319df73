/**
 * Operations as methods of `svc.outbox`, `svc.webhooks`, `svc.keys`, `svc.invitations`, `svc.topics`, `svc.backups` and
 * `svc.agents`: their types. Arguments and results follow the definitions.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import type { groups } from '../operations/groups.ts'
import type { CallerInput } from '../operations/schema.ts'

type InputOf<D> = D extends { input: infer I extends TSchema } ? CallerInput<I> : never
type AnswerOf<D> = D extends { output: infer O extends TSchema } ? Static<O> : never
type PositionalKeys<D> = D extends { positionals: infer P extends readonly string[] } ? P : []
type PositionalArguments<I, P extends readonly string[]> = { -readonly [N in keyof P]: I[P[N] & keyof I] }
type OtherArguments<I> = keyof I extends never ? [] : Partial<I> extends I ? [others?: I] : [others: I]

/**
 * An operation as a method: first its positional arguments, then an object with the other keys of its input.
 */
export type Method<D> = (
  ...args: [
    ...PositionalArguments<InputOf<D>, PositionalKeys<D>>,
    ...OtherArguments<Omit<InputOf<D>, PositionalKeys<D>[number]>>,
  ]
) => Promise<AnswerOf<D>>

type Methods<G> = { readonly [K in keyof G]: Method<G[K]> }

/** Groups of operations. Each group is a field of `Svc`. */
export type Groups = { readonly [G in keyof typeof groups]: Methods<(typeof groups)[G]> }

/** Says which keys of the input are arguments; the rest is one object. */
export interface Callable {
  readonly positionals: readonly string[]
}

/** Calls an operation, or its route. */
export type Invoke<C> = (callable: C, input: Record<string, unknown>) => Promise<unknown>
