/**
 * Operations as methods of `svc.outbox`, `svc.webhooks`, `svc.keys`, `svc.invitations`, `svc.topics`, `svc.backups` and
 * `svc.agents`. Arguments and results follow the definitions.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import type { groups } from '../operations/groups.ts'
import type { forgetUser } from '../operations/people.ts'
import type { CallerInput } from '../operations/schema.ts'
import type { listNodes } from '../operations/service.ts'

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

/** The methods of the groups, and two that are in none. */
export class GroupMethods implements Groups {
  readonly outbox: Groups['outbox']
  readonly webhooks: Groups['webhooks']
  readonly keys: Groups['keys']
  readonly invitations: Groups['invitations']
  readonly topics: Groups['topics']
  readonly backups: Groups['backups']
  readonly agents: Groups['agents']
  readonly forget: Method<typeof forgetUser>
  readonly nodes: Method<typeof listNodes>

  /**
   * @param all what the methods call: operations, or their routes
   * @param invoke calls one of them
   */
  protected constructor(
    all: { readonly [G in keyof Groups]: Readonly<Record<keyof Groups[G], Callable>> },
    single: Readonly<Record<'forget' | 'nodes', Callable>>,
    invoke: Invoke<Callable>,
  ) {
    this.outbox = methodsOf(all.outbox, invoke)
    this.webhooks = methodsOf(all.webhooks, invoke)
    this.keys = methodsOf(all.keys, invoke)
    this.invitations = methodsOf(all.invitations, invoke)
    this.topics = methodsOf(all.topics, invoke)
    this.backups = methodsOf(all.backups, invoke)
    this.agents = methodsOf(all.agents, invoke)
    const { forget, nodes } = methodsOf<{ forget: typeof forgetUser; nodes: typeof listNodes }>(
      single,
      invoke,
    )
    this.forget = forget
    this.nodes = nodes
  }
}

const methodsOf = <G>(group: Readonly<Record<keyof G, Callable>>, invoke: Invoke<Callable>): Methods<G> =>
  Object.fromEntries(
    Object.entries<Callable>(group).map(([name, callable]) => [
      name,
      async (...args: unknown[]) => invoke(callable, inputOf(callable, args)),
    ]),
  ) as unknown as Methods<G>

function inputOf({ positionals: keys }: Callable, args: readonly unknown[]): Record<string, unknown> {
  const positional = Object.fromEntries(keys.map((key, index) => [key, args[index]]))
  return { ...(args[keys.length] as object | undefined), ...positional }
}
