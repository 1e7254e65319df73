/** How the service is, for the people behind it: `health` is what anybody may know. */
import { Type } from '@sinclair/typebox'
import { ServiceFacts } from '../model/service.ts'
import { closed, flag, integer, oneOf, optional } from '../model/shapes.ts'
import { operation } from './operation.ts'

/** For the panel alone: its door knows the service. */
export const status = operation({
  name: 'status',
  title: 'How the service is',
  effect: 'read',
  right: 'sessions',
  description: 'Version, accounts, who polls, whether the store works, and where things lie. Takes no lock.',
  input: closed({}),
  output: Type.Object({
    ...ServiceFacts.properties,
    connected: flag('Whether any session is.'),
    session_count: Type.Integer(),
    connected_count: Type.Integer(),
    role: oneOf(['poller', 'watcher']),
    stalled: flag('Of a watcher: the polling process shows no life.'),
    poller_pid: optional(integer('Of a stalled one: the process that keeps polling to itself.')),
    store: oneOf(['ok', 'unavailable']),
    polls_since: optional(integer('Unix milliseconds: of a poller, since when it is.')),
  }),
  async run(gateway, _input, { service }) {
    if (!service) throw new Error('a door that offers status has to say which service it is part of')
    const { role, stalled, store, sessions, connected } = await gateway.health()
    return {
      ...service,
      connected: connected > 0,
      session_count: sessions,
      connected_count: connected,
      role,
      stalled,
      store,
      poller_pid: stalled ? await gateway.pollerPid() : undefined,
      polls_since: gateway.pollsSince(),
    }
  },
})
