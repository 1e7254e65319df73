/** What links in deliveries of webhooks lead to. */
import type { Elysia } from 'elysia'
import { SvcError } from '../model/error.ts'
import { bounded, closed } from '../model/shapes.ts'
import { parse } from '../operations/parse.ts'
import { Shaped } from '../operations/schema.ts'
import { sendMedia } from './media-routes.ts'
import { queryOf } from './paths.ts'
import { answered, decoded, jsonAnswer, type RouteContext } from './route.ts'

const SharedPath = closed({
  webhook: bounded(64),
  message_id: bounded(512),
  item: Shaped('^(\\d{1,3}|message)$', 'the number of a file, or message', 'What the link leads to.'),
})
const SharedQuery = closed({
  expires: Shaped(
    '^\\d{1,12}$',
    'a time in seconds since 1970, as in the link',
    'Until when the link works.',
  ),
  signature: bounded(100),
})

/** Whether anybody may ask for this path: its own signature says who may. */
export const isShared = (path: string): boolean => path.startsWith('/shared/')

/** Adds GET /shared/{webhook}/{message_id}/{item}: what a delivery links to. */
export function addSharedRoute(app: Elysia, context: RouteContext): void {
  const { webhooks } = context.gateway
  const serve = async (request: Request, given: Record<string, string>) => {
    const to = parse(SharedPath, decoded(given))
    const { expires, signature } = parse(SharedQuery, queryOf(request))
    if (!(await webhooks.opens(to, expires, signature)))
      throw new SvcError('forbidden', 'this link is wrong, or older than 15 minutes', {
        hint: 'Each delivery brings new links; replay the event for another one.',
      })
    if (to.item !== 'message') return await sendMedia(context.gateway, to, request, false)
    return new Response(JSON.stringify(await webhooks.message(to.message_id)), jsonAnswer)
  }
  app.get(
    '/shared/:webhook/:message_id/:item',
    ({ request, params }) => answered(context, request, () => serve(request, params)),
    { detail: { hide: true } },
  )
}
