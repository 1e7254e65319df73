/**
 * The gateway as a caller with a key sees it: only what its grant contains, and only what belongs to it. What
 * is left out answers exactly as what does not exist. Each method has its rule here, so a new method without a
 * rule does not compile. Rights are not checked here, but by the gate.
 */
import { limitSessions } from '../accounts/visible.ts'
import { uploaderOf } from '../media/uploads.ts'
import { hasMessage, isWhole, type Scope } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import { grantsRight, keyIdOf, type Principal, scopeOf } from '../model/principal.ts'
import type { PublicEvent } from '../push/events.ts'
import { sightOf } from '../send/outbox.ts'
import type { SendRequest } from '../send/plan.ts'
import { isEventInScope } from '../storage/events.ts'
import type { ChangeListener } from './changes.ts'
import type { Gateway } from './gateway-api.ts'

/** Views by principal: all calls with one key share one. */
const views = new WeakMap<Principal, { of: Gateway; view: Gateway }>()

/** Returns the gateway for calls of this principal. Without a grant, that is the gateway itself. */
export function viewFor(gateway: Gateway, by: Principal): Gateway {
  if (by.grant === undefined) return gateway
  const known = views.get(by)
  if (known?.of === gateway) return known.view
  const id = keyIdOf(by)
  if (id === undefined) throw new Error('a principal with a grant must have an id')
  const view = createView(gateway, createViewer(by, id))
  views.set(by, { of: gateway, view })
  return view
}

/** What the rules need to know of a caller. */
interface Viewer {
  readonly by: Principal
  /** Id of the key. */
  readonly id: string
  /** Absent if it leaves nothing out. */
  readonly scope?: Scope
  /** Scope of its events. Absent if it also gets the events about webhooks. */
  readonly eventScope?: Scope
}

function createViewer(by: Principal, id: string): Viewer {
  const { bots, users } = scopeOf(by)
  const scope: Scope = { ...(bots && { bots }), ...(users && { users }) }
  if (!isWhole(scope)) return { by, id, scope, eventScope: scope }
  return { by, id, ...(by.grant && !grantsRight(by.grant, 'webhooks') && { eventScope: scope }) }
}

/** Returns a name of the caller as it is stored: keys use the same names without sharing them. */
const ownName = ({ id }: Viewer, name: string): string => `${id}/${name}`

const createView = (gateway: Gateway, viewer: Viewer): Gateway => ({
  inbox: viewInbox(gateway.inbox, viewer),
  consumers: {
    list: which => gateway.consumers.list({ ...which, of: viewer.id }),
    remove: name => gateway.consumers.remove(ownName(viewer, name)),
  },
  sender: viewSender(gateway.sender, viewer),
  outbox: gateway.outbox,
  media: viewMedia(gateway.media, viewer),
  history: {
    page: (request, signal, hasRoom) =>
      gateway.history.page({ ...request, scope: viewer.scope }, signal, hasRoom),
    walk: (filter, signal) => gateway.history.walk({ ...filter, scope: viewer.scope }, signal),
  },
  conversations: viewConversations(gateway, viewer),
  accounts: viewAccounts(gateway.accounts, viewer),
  users: {
    list: filter => gateway.users.list(filter, viewer.scope),
    name: request => gateway.users.name(request, viewer.scope),
  },
  logins: gateway.logins,
  // It limits keys by itself.
  invitations: gateway.invitations,
  // It limits keys to the topics that they name.
  topics: gateway.topics,
  webhooks: gateway.webhooks,
  // They limit keys by themselves.
  subscriptions: gateway.subscriptions,
  events: viewEvents(gateway.events, viewer),
  changes: { subscribe: listener => gateway.changes.subscribe(limitListener(listener, viewer)) },
  keys: gateway.keys,
  audit: gateway.audit,
  backups: gateway.backups,
  people: gateway.people,
  agents: gateway.agents,
  relays: gateway.relays,
  // They limit keys by themselves.
  relayClients: gateway.relayClients,
  relayLogins: gateway.relayLogins,
  tasks: gateway.tasks,
  // The room limits accounts and users by the caller, and questions to those of the caller.
  asks: gateway.asks,
  metrics: gateway.metrics,
  signIns: gateway.signIns,
  clock: gateway.clock,
  health: () => viewHealth(gateway, viewer),
  nodes: () => gateway.nodes(),
  pollerPid: () => gateway.pollerPid(),
  pollsSince: () => gateway.pollsSince(),
})

async function viewHealth(gateway: Gateway, { scope }: Viewer): ReturnType<Gateway['health']> {
  const health = await gateway.health()
  if (!scope) return health
  const sessions = await gateway.accounts.list(scope)
  return {
    ...health,
    sessions: sessions.filter(({ status }) => status !== 'logging_in').length,
    connected: sessions.filter(({ connected }) => connected).length,
  }
}

const viewInbox = (inbox: Gateway['inbox'], viewer: Viewer): Gateway['inbox'] => {
  const { scope } = viewer
  return {
    begin: (consumer, options) => inbox.begin(ownName(viewer, consumer), options),
    getHead: () => inbox.getHead(),
    follow: ({ consumer, ...reading }, signal) =>
      inbox.follow(
        { ...reading, scope, ...(consumer !== undefined && { consumer: ownName(viewer, consumer) }) },
        signal,
      ),
    open: ({ consumer, ...reading }, signal) =>
      inbox.open({ ...reading, scope, consumer: ownName(viewer, consumer) }, signal),
    recv: (request, call) =>
      inbox.recv({ ...request, scope, consumer: ownName(viewer, request.consumer) }, call),
    countWaiting: (request, most) =>
      inbox.countWaiting({ ...request, scope, consumer: ownName(viewer, request.consumer) }, most),
    lease: (request, call) =>
      inbox.lease({ ...request, scope, consumer: ownName(viewer, request.consumer) }, call),
    renewLeases: (consumer, leases) => inbox.renewLeases(ownName(viewer, consumer), leases),
    settleLeases: (consumer, leases, read) => inbox.settleLeases(ownName(viewer, consumer), leases, read),
  }
}

/** The room limits accounts and users by the caller. */
function viewSender(sender: Gateway['sender'], viewer: Viewer): Gateway['sender'] {
  const own = ({ idempotency_key: key, ...request }: SendRequest): SendRequest => ({
    ...request,
    ...(key !== undefined && { idempotency_key: ownName(viewer, key) }),
  })
  return {
    send: (request, caller) => sender.send(own(request), caller),
    foresee: (request, caller) => sender.foresee(own(request), caller),
  }
}

const viewMedia = (media: Gateway['media'], { by, scope }: Viewer): Gateway['media'] => ({
  accept: (upload, signal) => media.accept({ ...upload, by: uploaderOf(by) }, signal),
  open: (request, signal) => media.open({ ...request, scope }, signal),
  download: (request, call) => media.download({ ...request, scope }, call),
  show: (request, signal) => media.show({ ...request, scope, sight: sightOf(by) }, signal),
})

/** A caller with a key has read marks of its own. */
const viewConversations = (
  { conversations, events }: Gateway,
  { id: reader, scope }: Viewer,
): Gateway['conversations'] => {
  /** @throws SvcError `session_not_found`, `invalid_arguments` for a conversation outside the scope */
  const requireVisible = async (session: string, user: string): Promise<void> => {
    if (scope) await events.resolveFilter({ session, user, scope }, 'user_id')
  }
  return {
    list: filter => conversations.list({ ...filter, scope, reader }),
    async markRead(session, user, upTo) {
      await requireVisible(session, user)
      await conversations.markRead(session, user, upTo, reader)
    },
    async markUnread(session, user) {
      await requireVisible(session, user)
      await conversations.markUnread(session, user, reader, scope)
    },
    countPerHour: count => conversations.countPerHour(count, scope),
  }
}

/** @throws SvcError `forbidden` for a caller that is limited to users, about what concerns all users of an account */
function requireWholeAccount(scope: Scope = {}): void {
  if (scope.users)
    throw new SvcError(
      'forbidden',
      'your key is limited to certain users, and this concerns the whole account',
      {
        hint: 'Ask the owner of the service to do it.',
      },
    )
}

const viewAccounts = (accounts: Gateway['accounts'], { scope }: Viewer): Gateway['accounts'] => ({
  list: () => accounts.list(scope),
  getReceiving: only => accounts.getReceiving(only, scope),
  listUsers: name => accounts.listUsers(name, scope),
  listWithUsers: () => accounts.listWithUsers(scope),
  check: name => accounts.check(name, scope),
  async logout(name) {
    requireWholeAccount(scope)
    return accounts.logout(name, scope)
  },
  async rename(oldName, newName) {
    requireWholeAccount(scope)
    return accounts.rename(oldName, newName, scope)
  },
  async setDefault(name) {
    requireWholeAccount(scope)
    return accounts.setDefault(name, scope)
  },
})

const viewEvents = (events: Gateway['events'], viewer: Viewer): Gateway['events'] => {
  const { eventScope: scope } = viewer
  return {
    getHead: before => events.getHead(before),
    wait: (cursor, signal) => events.wait(cursor, signal),
    startReader: (after, consumer) =>
      events.startReader(after, consumer === undefined ? undefined : ownName(viewer, consumer)),
    followSession: name => events.followSession(name),
    markActive: consumer => events.markActive(ownName(viewer, consumer)),
    resolveFilter: (filter, field) => events.resolveFilter({ ...filter, scope }, field),
    readPage: (after, filter, turn) => events.readPage(after, { ...filter, scope }, turn),
    follow: (after, filter, signal, options) => events.follow(after, { ...filter, scope }, signal, options),
  }
}

function limitListener(listener: ChangeListener, { eventScope, id: reader, scope }: Viewer): ChangeListener {
  const isVisible = ({ bot, event, user }: PublicEvent) =>
    eventScope === undefined || isEventInScope(eventScope, event.type, bot, user)
  return {
    reader,
    message(message, news) {
      const { bot_id, direction, from_user, to_user } = message
      const user = direction === 'received' ? from_user : to_user
      if (!scope || hasMessage(scope, bot_id, user)) listener.message?.(message, news)
    },
    event(event) {
      if (isVisible(event)) listener.event?.(event)
    },
    reached: cursor => listener.reached?.(cursor),
    sessions(now, before) {
      if (!scope) return listener.sessions?.(now, before)
      const [shown, shownBefore] = [limitSessions(now, scope), limitSessions(before, scope)]
      if (JSON.stringify(shown) !== JSON.stringify(shownBefore)) listener.sessions?.(shown, shownBefore)
    },
    marked: mark => listener.marked?.(mark),
  }
}
