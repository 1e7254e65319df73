/** The methods that both forms of the library have alike. */
import type { Health } from '../gateway/health.ts'
import type { AuditLine } from '../model/audit.ts'
import type { ListPage } from '../model/page.ts'
import type { KnownUser, NamedUser, NameRequest, Session, UserFilter } from '../model/session.ts'
import type { forgetUser } from '../operations/people.ts'
import type { listNodes } from '../operations/service.ts'
import type { AuditQuery, CallOptions } from './api.ts'
import type { Background } from './background.ts'
import type { HandlerOptions, MessageHandler } from './handlers.ts'
import type { Callable, Groups, Invoke, Method } from './methods.ts'
import type {
  HistoryInput,
  HistoryPage,
  LogoutInput,
  LogoutResult,
  RenameSessionInput,
  RenameSessionResult,
  SetDefaultInput,
  SetDefaultResult,
} from './verbs.ts'

/** Calls without a part of their own, by the names of their routes. */
export type PlainCall =
  | 'history'
  | 'sessions'
  | 'listUsers'
  | 'nameUser'
  | 'logout'
  | 'renameSession'
  | 'setDefault'
  | 'listAudit'
  | 'health'

/** What both forms of the library do in their own ways. */
export interface MethodPorts {
  /** What the methods of the groups call: operations, or their routes. */
  groups: { readonly [G in keyof Groups]: Readonly<Record<keyof Groups[G], Callable>> }
  /** What the methods in no group call. */
  single: Readonly<Record<'forget' | 'nodes', Callable>>
  /** Calls one of these. */
  invoke: Invoke<Callable>
  call<T>(name: PlainCall, input: object, options?: CallOptions): Promise<T>
  background: Background
}

/** The methods that are the same in both forms of the library. */
export class GroupMethods implements Groups {
  declare readonly outbox: Groups['outbox']
  declare readonly webhooks: Groups['webhooks']
  declare readonly keys: Groups['keys']
  declare readonly invitations: Groups['invitations']
  declare readonly topics: Groups['topics']
  declare readonly backups: Groups['backups']
  declare readonly agents: Groups['agents']
  declare readonly forget: Method<typeof forgetUser>
  declare readonly nodes: Method<typeof listNodes>
  protected readonly background: Background
  readonly #call: MethodPorts['call']

  protected constructor({ background, call, groups, invoke, single }: MethodPorts) {
    for (const [name, group] of Object.entries(groups))
      Object.assign(this, { [name]: methodsOf(group, invoke) })
    Object.assign(this, methodsOf(single, invoke))
    this.background = background
    this.#call = call
  }

  history(input: HistoryInput = {}, options: CallOptions = {}): Promise<HistoryPage> {
    return this.#call('history', input, options)
  }

  sessions(options: CallOptions = {}): Promise<Session[]> {
    return this.#call('sessions', {}, options)
  }

  users(filter: UserFilter & ListPage = {}): Promise<KnownUser[]> {
    return this.#call('listUsers', filter)
  }

  nameUser(user_id: string, name: string, of: Pick<NameRequest, 'session'> = {}): Promise<NamedUser> {
    return this.#call('nameUser', { user_id, name, ...of })
  }

  logout(input: LogoutInput = {}, options: CallOptions = {}): Promise<LogoutResult> {
    return this.#call('logout', input, options)
  }

  renameSession(input: RenameSessionInput, options: CallOptions = {}): Promise<RenameSessionResult> {
    return this.#call('renameSession', input, options)
  }

  setDefault(input: SetDefaultInput, options: CallOptions = {}): Promise<SetDefaultResult> {
    return this.#call('setDefault', input, options)
  }

  audit(filter: AuditQuery = {}): Promise<AuditLine[]> {
    return this.#call('listAudit', filter)
  }

  health(): Promise<Health> {
    return this.#call('health', {})
  }

  onMessage(handler: MessageHandler, options: HandlerOptions = {}): () => void {
    return this.background.addHandler(handler, options)
  }

  runBackground(): Promise<void> {
    return this.background.start()
  }

  runForever(): Promise<void> {
    return this.background.runForever()
  }

  close(): Promise<void> {
    return this.background.close()
  }
}

const methodsOf = (group: Readonly<Record<string, Callable>>, invoke: Invoke<Callable>): object =>
  Object.fromEntries(
    Object.entries(group).map(([name, callable]) => [
      name,
      async (...args: unknown[]) => invoke(callable, inputOf(callable, args)),
    ]),
  )

function inputOf({ positionals: keys }: Callable, args: readonly unknown[]): Record<string, unknown> {
  const positional = Object.fromEntries(keys.map((key, index) => [key, args[index]]))
  return { ...(args[keys.length] as object | undefined), ...positional }
}
