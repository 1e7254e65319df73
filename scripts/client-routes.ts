/**
 * `bun scripts/client-routes.ts`: writes `src/client/routes.ts`, the route of each method of the client. The client imports
 * no operation, since each brings the whole service with it.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Route, Routes } from '../src/client/route.ts'
import { listAudit } from '../src/operations/audit.ts'
import { leaseMessages, renewLeases, settleLeases } from '../src/operations/consumers.ts'
import { followEvents } from '../src/operations/events.ts'
import { exportMessages } from '../src/operations/export.ts'
import { groups } from '../src/operations/groups.ts'
import { me } from '../src/operations/keys.ts'
import { getMedia, uploadMedia } from '../src/operations/media.ts'
import type { Operation } from '../src/operations/operation.ts'
import { forgetUser } from '../src/operations/people.ts'
import { addQuestion, cancelQuestion, getQuestion } from '../src/operations/questions.ts'
import { health, listNodes } from '../src/operations/service.ts'
import { verbs } from '../src/operations/tools.ts'
import { showTyping } from '../src/operations/typing.ts'
import { listUsers, nameUser } from '../src/operations/users.ts'

const { download: _, ...tools } = verbs
const calls = {
  ...tools,
  addQuestion,
  cancelQuestion,
  exportMessages,
  followEvents,
  forgetUser,
  getMedia,
  getQuestion,
  health,
  leaseMessages,
  listAudit,
  listNodes,
  listUsers,
  me,
  nameUser,
  renewLeases,
  settleLeases,
  showTyping,
  uploadMedia,
}

function routeOf({ effect, name, positionals = [], rest }: Operation): Route {
  if (!rest) throw new Error(`${name} has no route`)
  return {
    route: rest.route,
    positionals,
    ...(rest.headers && { headers: rest.headers }),
    ...(rest.otherStatus && { otherStatus: rest.otherStatus.status }),
    ...(rest.hasFileBody && { hasFileBody: true }),
    ...(effect === 'read' && { isRead: true }),
  }
}

const routesOf = (operations: object): Record<string, Route> =>
  Object.fromEntries(Object.entries(operations).map(([name, operation]) => [name, routeOf(operation)]))

export const readRoutes = (): Routes => ({
  groups: Object.fromEntries(Object.entries(groups).map(([name, group]) => [name, routesOf(group)])),
  calls: routesOf(calls),
})

if (import.meta.main) {
  const path = join(import.meta.dirname, '../src/client/routes.ts')
  await writeFile(
    path,
    `/** The routes of the client's methods. Made by scripts/client-routes.ts from the operations. */
import type { Routes } from './route.ts'

export const routes = ${JSON.stringify(readRoutes())} as const satisfies Routes
`,
  )
  await Bun.spawn(['biome', 'check', '--write', path], { stdout: 'ignore' }).exited
}
