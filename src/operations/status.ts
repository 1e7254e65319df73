/** `status`: the state of the service for the panel. `health` contains what any caller may know. */
import { Type } from '@sinclair/typebox'
import { ServiceFacts } from '../model/service.ts'
import { flag, integer, oneOf, optional } from '../model/shapes.ts'
import { defineOperation } from './operation.ts'

/**
 * Returns the state of the service. Only the panel has it: only its calls contain the facts of the service.
 */
export const status = defineOperation({
  name: 'status',
  title: 'State of the service',
  effect: 'read',
  right: 'sessions',
  description:
    'Version, accounts, which process polls, whether the store works, and the paths of files. Takes no lock.',
  output: Type.Object({
    ...ServiceFacts.properties,
    connected: flag('Whether any session is connected.'),
    session_count: Type.Integer(),
    connected_count: Type.Integer(),
    role: oneOf(['poller', 'watcher']),
    stalled: flag('Only of a watcher: the polling process shows no sign of life.'),
    poller_pid: optional.integer('Only if stalled: id of the process that holds the poll lock.'),
    store: oneOf(['ok', 'unavailable']),
    failing_tasks: Type.Array(
      Type.Object({ name: Type.String(), since: integer('Unix milliseconds.'), error: Type.String() }),
      {
        description:
          'Work in the background that fails. A caller with a key gets no errors: they may have paths.',
      },
    ),
    polls_since: optional.integer('Only of a poller: since when it polls, in Unix milliseconds.'),
  }),
  async run(gateway, _input, { by, service }) {
    if (!service) throw new Error('a door that offers status must pass the facts of its service')
    // Hides the paths of this machine, and the phone that can write for every user, from callers with a key.
    const { sandbox_phone, ...facts } = service
    const shown = by.grant ? { ...facts, base_path: '', media_root: '' } : service
    const { role, stalled, store, sessions, connected } = await gateway.health()
    return {
      ...shown,
      connected: connected > 0,
      session_count: sessions,
      connected_count: connected,
      role,
      stalled,
      store,
      poller_pid: stalled ? await gateway.pollerPid() : undefined,
      polls_since: gateway.pollsSince(),
      failing_tasks: gateway.tasks
        .listFailing()
        .map(({ error, name, since }) => ({ name, since, error: by.grant ? '' : error })),
    }
  },
})
