/** Target of the links in webhook deliveries: media of a message, or a whole message whose text was cut. */
import { Type } from '@sinclair/typebox'
import { SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { bounded, closed } from '../model/shapes.ts'
import { bytesRestShape, mediaErrors, openRequested, type RequestedMedia, rangeInputs } from './media.ts'
import { defineOperation } from './operation.ts'
import { PatternString } from './schema.ts'

/** The signature of the link replaces the token. */
export const getShared = defineOperation({
  name: 'get_shared',
  title: 'Open a link of a delivery',
  effect: 'read',
  right: 'shared',
  description: 'Streams the bytes of media, or the part that Range asks for; or returns a message as JSON.',
  input: closed({
    webhook: bounded(64, 'Id of the webhook.', { examples: ['wh_1'] }),
    message_id: bounded(512, 'Id of the message.', { examples: ['7412365478965412365'] }),
    item: PatternString('^(\\d{1,3}|message)$', 'the number of a file, or message', 'Target of the link.', {
      examples: ['message'],
    }),
    expires: PatternString(
      '^\\d{1,12}$',
      'a time in seconds since 1970, as in the link',
      'Until when the link is valid.',
      { examples: ['1767225900'] },
    ),
    signature: bounded(100, 'Signature of svc.', { examples: ['Q2hhbmdlZA'] }),
    ...rangeInputs,
  }),
  output: Type.Unsafe<RequestedMedia | Message>({}),
  errors: ['forbidden', ...mediaErrors],
  rest: {
    route: 'GET /shared/{webhook}/{message_id}/{item}',
    tag: 'media',
    isPublic: true,
    isHidden: true,
    ...bytesRestShape,
  },
  async run(
    { media, people, webhooks },
    { webhook, message_id, item, expires, signature, ...wanted },
    { signal },
  ) {
    if (!(await webhooks.isLinkValid({ webhook, message_id, item }, expires, signature)))
      throw new SvcError('forbidden', 'this link is wrong, or older than 15 minutes', {
        hint: 'Replay the event: each delivery contains new links.',
      })
    if (item === 'message') return webhooks.getMessage(message_id)
    // The media is opened without its size: reading a whole video to count it would be too much for unknown
    // callers.
    const target = { message_id, item: Number(item) }
    return openRequested(
      people,
      () => media.open(target, signal),
      wanted,
      `played ${target.item} ${message_id}`,
    )
  },
})
