/** What links in deliveries of webhooks lead to: media of a message, or the whole of one whose text was cut. */
import { Type } from '@sinclair/typebox'
import { SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { bounded, closed } from '../model/shapes.ts'
import { asBytes, openErrors, openWanted, type WantedMedia, wholeOrPart } from './media.ts'
import { operation } from './operation.ts'
import { Shaped } from './schema.ts'

/** The signature says who may open it. */
export const getShared = operation({
  name: 'get_shared',
  title: 'Open a link of a delivery',
  effect: 'read',
  right: 'shared',
  description: 'Streams the bytes of media, or the part that Range asks for; or gives a message as JSON.',
  input: closed({
    webhook: bounded(64, 'Id of the webhook.', { examples: ['wh_1'] }),
    message_id: bounded(512, 'The message that it is about.', { examples: ['7412365478965412365'] }),
    item: Shaped('^(\\d{1,3}|message)$', 'the number of a file, or message', 'What the link leads to.', {
      examples: ['message'],
    }),
    expires: Shaped('^\\d{1,12}$', 'a time in seconds since 1970, as in the link', 'When it ends.', {
      examples: ['1767225900'],
    }),
    signature: bounded(100, 'Says that svc made the link.', { examples: ['Q2hhbmdlZA'] }),
    ...wholeOrPart,
  }),
  output: Type.Unsafe<WantedMedia | Message>({}),
  errors: ['forbidden', ...openErrors],
  rest: {
    place: 'GET /shared/{webhook}/{message_id}/{item}',
    tag: 'media',
    open: true,
    hidden: true,
    ...asBytes,
  },
  async run({ media, webhooks }, { webhook, message_id, item, expires, signature, ...wanted }, { signal }) {
    if (!(await webhooks.opens({ webhook, message_id, item }, expires, signature)))
      throw new SvcError('forbidden', 'this link is wrong, or older than 15 minutes', {
        hint: 'Each delivery brings new links; replay the event for another one.',
      })
    if (item === 'message') return webhooks.message(message_id)
    // Nothing is counted for callers that nobody knows.
    const which = { message_id, item: Number(item) }
    return openWanted(() => media.open(which, signal), wanted, `${which.item} ${message_id}`)
  },
})
