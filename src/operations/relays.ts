/** Operations for programs that speak WeChat's protocol to svc. */
import { Type } from '@sinclair/typebox'
import { owner } from '../model/principal.ts'
import { AddedRelay, NewRelayInput, Relay } from '../model/relay.ts'
import { bounded, closed, optional, text } from '../model/shapes.ts'
import { defineOperation } from './operation.ts'

const id = 'k3v9x2ab'
const exampleRelay = {
  id,
  name: 'openclaw',
  session: 'work',
  answers: 'all' as const,
  created_at: 1767225600000,
  polled_at: 1767225660000,
  unread: 0,
  answered: 2,
  refused: 0,
}

export const listRelays = defineOperation({
  name: 'list_relays',
  title: 'List the programs that speak WeChat’s protocol to svc',
  effect: 'read',
  right: 'keys',
  description:
    'Lists the programs of the relay, oldest first: when each polled last, what it has not got, what it sent to the person who wrote last, which of its sends were refused, and whether two programs use its token. A caller with a key sees only those that it added. Tokens are not shown.',
  output: Type.Array(Relay),
  examples: [{ summary: 'One program', output: [exampleRelay] }],
  rest: { route: 'GET /relays', tag: 'keys' },
  cli: { path: ['relay'], alias: 'list', examples: [['svc relay', 'Every program']] },
  run: ({ relayClients }, _input, { by }) => relayClients.list(by),
})

export const addRelay = defineOperation({
  name: 'add_relay',
  title: 'Let a program speak WeChat’s protocol to svc',
  effect: 'write',
  right: 'keys',
  subject: [],
  description:
    'Makes a key with the right `relay` for a program that speaks WeChat’s own protocol (iLink), such as OpenClaw. The program takes `base_url` and `token` in place of those of WeChat, and gets every message of the session from now on, beside all other readers. Only this answer has the token. `others` names what else answers there. From the first key on, every call over TCP needs a key or the master token.',
  input: NewRelayInput,
  output: AddedRelay,
  errors: ['session_not_found', 'not_connected', 'forbidden'],
  examples: [
    {
      summary: 'OpenClaw, with its files',
      input: { name: 'openclaw', session: 'work', for: 'openclaw' },
      output: {
        ...exampleRelay,
        token: `svc_${id}_${'0a1b2c3d'.repeat(8)}`,
        base_url: 'http://127.0.0.1:8000',
        cdn_url: 'http://127.0.0.1:8000/ilink/c2c',
        bot_id: '4f2c@im.bot',
        user_id: 'o9cq@im.wechat',
        others: [],
        settings: [{ file: '~/.openclaw/openclaw-weixin/accounts.json', text: '["4f2c-im-bot"]' }],
      },
    },
  ],
  rest: { route: 'POST /relays', tag: 'keys' },
  positionals: ['name'],
  cli: {
    path: ['relay', 'add'],
    about:
      'With --for, the files of the program are written; other accounts in them stay, and a file that changes is copied to FILE.bak before. What a program takes in a form is printed.',
    help: { for: 'Write the settings of this program on this machine.' },
    examples: [
      ['svc relay add openclaw --session work --for openclaw', 'OpenClaw on this machine'],
      ['svc relay add weilink --session work --answers called', 'It answers only what begins with its name'],
      ['svc relay add bot --session work --answers 3', 'At most 3 of the 10 answers to each message'],
      ['svc relay add bot --session work --allow-login', 'It logs in by itself, and you agree'],
    ],
  },
  run: ({ relayClients }, input, call) => relayClients.add(call.by, input, call),
})

export const removeRelay = defineOperation({
  name: 'remove_relay',
  title: 'End a program that speaks WeChat’s protocol to svc',
  effect: 'destroy',
  right: 'keys',
  subject: [],
  description: 'Revokes the key of a program, and removes its place in the log. Its settings stay.',
  input: closed({
    name: bounded(64, 'Name of the program, or the id of its key.', { examples: ['openclaw'] }),
  }),
  output: Relay,
  errors: ['not_found'],
  examples: [{ summary: 'Ended', input: { name: 'openclaw' }, output: exampleRelay }],
  rest: { route: 'DELETE /relays/{name}', tag: 'keys' },
  cli: {
    path: ['relay', 'remove'],
    question: async (_gateway, { name }) => `End the program ${name}? Its token is refused from then on.`,
    examples: [['svc relay remove openclaw', 'Asks first at a terminal']],
  },
  run: ({ relayClients }, input, { by }) => relayClients.remove(by, input.name),
})

export const allowRelay = defineOperation({
  name: 'allow_relay',
  title: 'Let a program of the relay log in that shows a number',
  effect: 'write',
  right: 'keys',
  subject: [],
  description:
    'Agrees to the login of a program that was added with `allow_login`: of those who ask, the one that shows this number gets the token, within five minutes. `GET /relays` shows their addresses. Three wrong numbers refuse all who ask, and so does `DELETE /relays/{name}`.',
  input: closed({
    number: bounded(6, 'The six digits that the program shows.', {
      pattern: '^[0-9]{6}$',
      examples: ['482913'],
    }),
  }),
  output: Type.Object({
    name: text('Name of the program.'),
    address: optional.text('Network address of who asked.'),
  }),
  errors: ['not_found'],
  examples: [
    {
      summary: 'Agreed',
      input: { number: '482913' },
      output: { name: 'openclaw', address: '192.0.2.7' },
    },
  ],
  rest: { route: 'POST /relays/allow', tag: 'keys' },
  positionals: ['number'],
  cli: {
    path: ['relay', 'allow'],
    question: async ({ relayClients }, { number }) => {
      const all = await relayClients.list(owner)
      const asking = all.flatMap(({ asks = [], name }) =>
        asks.map(({ address = '?' }) => `${name} at ${address}`),
      )
      return `${asking.join(', ') || 'No program'} asks. Give the token to the one that shows ${number}?`
    },
    examples: [['svc relay allow 482913', 'The number is in the link that the program shows']],
  },
  run: ({ relayLogins }, { number }, { by }) => relayLogins.allow(by, number),
})
