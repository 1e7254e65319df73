/** What the panel's page asks for: each operation at its name, and the endpoints of the specification, which call the same. */
import type { Elysia } from 'elysia'
import {
  followLogin,
  listAccounts,
  logoutAccount,
  renameAccount,
  startLogin,
} from '../../operations/accounts.ts'
import type { Operation, RestShape } from '../../operations/operation.ts'
import { panelOperations } from '../../operations/operations.ts'
import { status } from '../../operations/status.ts'
import { addOperations } from '../operation-routes.ts'
import type { RouteContext } from '../route.ts'

/** An operation as the panel's door has it. */
const at = (operation: Operation, rest: RestShape): Operation => ({ ...operation, rest })

/** The endpoints of the specification. */
const specified = [
  at(status, { place: 'GET /status', tag: 'panel' }),
  at(listAccounts, { place: 'GET /sessions', tag: 'accounts', operationId: 'sessions' }),
  at(startLogin, { place: 'POST /sessions/login', tag: 'accounts' }),
  at(followLogin, {
    place: 'GET /sessions/login/status',
    tag: 'accounts',
    operationId: 'login_status',
  }),
  logoutAccount,
  renameAccount,
]

/** Adds the specification's endpoints, and `POST /api/call/NAME` for every operation of the panel. */
export function addCallRoutes(app: Elysia, context: RouteContext): void {
  addOperations(app, context, specified, '/api')
  for (const tag of ['panel', 'accounts', 'messages', 'webhooks'] as const)
    for (const operation of panelOperations[tag]) {
      const { name } = operation
      const call = at(operation, {
        place: `POST /call/${name}`,
        tag,
        operationId: `call_${name}`,
        body: 'may',
      })
      addOperations(app, context, [call], '/api')
    }
}
