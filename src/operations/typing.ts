import { SendResult } from '../model/message.ts'
import { closed, optional } from '../model/shapes.ts'
import { defineOperation } from './operation.ts'
import { SendInput, send } from './send.ts'

/** Tools have the argument `typing` of `send` for it, which cannot end the sign early. */
export const showTyping = defineOperation({
  name: 'show_typing',
  title: 'Show a user that the bot is typing',
  effect: 'write',
  audited: false,
  right: ['typing', 'relay'],
  description: 'The typing sign ends after some seconds. Nothing is sent, and no answer is used.',
  input: closed({
    to: SendInput.properties.to,
    session: optional.bounded(200, 'Session to use. Without it: the session that the user last wrote to.'),
    typing: optional.flag('false: end the sign now.'),
  }),
  output: SendResult,
  errors: send.errors,
  rest: { route: 'POST /users/{to}/typing', tag: 'messages' },
  run: ({ sender }, { to, session, typing = true }, call) =>
    sender.send({ to, media: [], session, typing }, call),
})
