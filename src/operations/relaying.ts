/** Operations of the door for programs that speak WeChat's protocol. Its other calls are those of everybody: uploads, typing. */
import { Type } from '@sinclair/typebox'
import type { RelayRead } from '../gateway/relays.ts'
import { MediaContent, SendResult } from '../model/message.ts'
import { between, bounded, closed, optional } from '../model/shapes.ts'
import type { RelayClient } from '../storage/relays.ts'
import { mediaErrors, openRequested, type RequestedMedia } from './media.ts'
import { defineOperation } from './operation.ts'
import { send } from './send.ts'

const right = 'relay'

export const relayClient = defineOperation({
  name: 'relay_client',
  title: 'Get the relay client of the caller',
  effect: 'read',
  right,
  description: 'Fails for a key of no relay client.',
  output: Type.Unsafe<RelayClient>({ type: 'object' }),
  run: ({ relays }, _input, { by }) => relays.clientOf(by),
})

export const relayPoll = defineOperation({
  name: 'relay_poll',
  title: 'Read messages as WeChat sent them',
  effect: 'read',
  right,
  description:
    'Returns the rows after a position, and acknowledges those up to it. A newer poll of the client ends it.',
  input: closed({
    after: optional(
      closed({
        row: between(1, Number.MAX_SAFE_INTEGER, 'Row id of the last message that arrived.'),
        mark: bounded(12, 'End of its message_id.'),
      }),
    ),
    source: optional.bounded(100, 'What tells programs with one token apart.'),
    timeout: between(0, 60, 'Seconds to wait if there are none.'),
  }),
  output: Type.Unsafe<RelayRead>({ type: 'object' }),
  run: ({ relays }, input, call) => relays.poll(input, call),
})

export const relaySend = defineOperation({
  name: 'relay_send',
  title: 'Send a message of a relay client',
  effect: 'write',
  // The store writes the audit line, together with the message.
  audited: false,
  right,
  description: 'Sends a text or a file from the session of the client. It does not begin after 9 s.',
  input: closed({
    to: bounded(512, 'User id.'),
    text: optional.text('Text to send.'),
    media: optional(Type.Array(MediaContent, { maxItems: 1 })),
    client_id: optional.bounded(200, 'With the same one, a later call sends nothing.'),
  }),
  output: SendResult,
  errors: send.errors,
  run: ({ relays }, input, call) => relays.send(input, call),
})

export const relayDownload = defineOperation({
  name: 'relay_download',
  title: 'Get the media of a message for a relay client',
  effect: 'read',
  right,
  description: 'Streams the decrypted bytes as WeChat has them.',
  input: closed({
    message_id: bounded(512, 'The message_id of a stored message.', { examples: ['7412365478965412365'] }),
    item: between(0, 999, 'Number of the media in the message.', { examples: [0] }),
  }),
  output: Type.Unsafe<RequestedMedia>({ type: 'string', format: 'binary' }),
  errors: mediaErrors,
  run: ({ media, people }, input, { signal }) =>
    openRequested(people, sized => media.open({ ...input, sized, format: 'original' }, signal), {}),
})
