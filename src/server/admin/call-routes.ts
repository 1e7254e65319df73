/**
 * Routes of the panel's API: `POST /api/call/NAME` for each operation, and fixed endpoints for some of these
 * operations.
 */
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

/** Returns an operation with another route. */
const withRoute = (operation: Operation, rest: RestShape): Operation => ({ ...operation, rest })

/** Operations that also have a fixed endpoint below `/api`. */
const operationsWithEndpoint = [
  withRoute(status, { route: 'GET /status', tag: 'panel' }),
  withRoute(listAccounts, { route: 'GET /sessions', tag: 'accounts', operationId: 'sessions' }),
  withRoute(startLogin, { route: 'POST /sessions/login', tag: 'accounts' }),
  withRoute(followLogin, {
    route: 'GET /sessions/login/status',
    tag: 'accounts',
    operationId: 'login_status',
  }),
  logoutAccount,
  renameAccount,
]

const tags = Object.keys(panelOperations) as (keyof typeof panelOperations)[]

/** Adds the fixed endpoints, and `POST /api/call/NAME` for every operation of the panel. */
export function addCallRoutes(app: Elysia, context: RouteContext): void {
  addOperations(app, context, operationsWithEndpoint, '/api')
  for (const tag of tags)
    for (const operation of panelOperations[tag]) {
      const { name } = operation
      const call = withRoute(operation, {
        route: `POST /call/${name}`,
        tag,
        operationId: `call_${name}`,
        body: 'may',
      })
      addOperations(app, context, [call], '/api')
    }
}
