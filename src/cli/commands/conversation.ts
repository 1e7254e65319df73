/** The commands about conversations and accounts that are no tools. */
import { resultCommands } from '../command.ts'

export const conversation = resultCommands([
  {
    words: 'users',
    summary: 'list who has written, and what may be answered',
    about:
      'Lists the users who have written to the bot, the latest first, with the answers that are left and until when. WeChat lets a bot answer for about 24 hours after a user has written, about 10 times.',
    takes: command => command.argument('[session]', 'Only users of this session.'),
    examples: [['svc users', 'Whom svc send can reach now']],
    run: async (command, line) => (await import('../run-reads.ts')).listUsers(line, command),
  },
  {
    words: 'users name',
    summary: 'give a user a name',
    about:
      'Gives a user a name that svc shows instead of the id, and that svc send and svc history take. No two users of a session have the same name, and none has an "@". It is kept when the session is logged out. Agents read names and cannot set them.',
    takes: command =>
      command
        .argument('<user>', 'Id of the user, or the name that the user has now.')
        .argument('[name]', 'What svc calls the user from now on; an empty one takes the name away.')
        .option('-s, --session <session>', 'As a user of this session; without it the one written to last.')
        .option('--clear', 'Take the name away.'),
    examples: [
      ['svc users name o9cq80x1y2z3@im.wechat Mum', 'From now on: svc send Mum "Hello!"'],
      ['svc users name Mum --clear', 'The id again'],
    ],
    run: async (command, line) => (await import('../run-reads.ts')).nameUser(line, command),
  },
  {
    words: 'typing',
    summary: 'show a user that the bot is typing',
    about:
      'Shows a user that the bot is typing, for as long as told or until Ctrl-C. Nothing is sent, and no answer is used. svc send --typing shows it from the start of a send.',
    takes: command =>
      command
        .argument('<user>', 'Id or name of a user who has written.')
        .option('--seconds <seconds>', 'How long.', '5')
        .option('-s, --session <session>', 'From this session; without it the one written to last.'),
    examples: [['svc typing Mum --seconds 20', 'While another program makes an answer']],
    run: async command => (await import('../run-reads.ts')).showTyping(command),
  },
  {
    words: 'events',
    summary: 'show what happened, and with --follow what happens',
    about:
      'Shows the events of the last 24 hours, or those after an id: messages, the status of sent ones, what became of sessions. With --follow those that come from now on, until Ctrl-C. Follows the store, beside any service, and receives nothing from WeChat itself.',
    takes: command =>
      command
        .option('-f, --follow', 'Go on with what comes.')
        .option(
          '--after <id>',
          'Begin after the event of this id, or at a time such as 2026-01-31, 1h or yesterday; 0: at the beginning.',
        )
        .option('--types <types>', 'Only these types, separated by commas: message.received,session.status …')
        .option('-s, --session <session>', 'Only events of this session.')
        .option('-u, --user <user>', 'Only messages from and to this user, by id.'),
    json: 'Print a JSON object per line: {id, type, timestamp, data}.',
    examples: [
      ['svc events', 'What happened since yesterday'],
      ['svc events --follow --json | jq -r .type', 'For programs'],
    ],
    run: async command => (await import('../events.ts')).showEvents(command),
  },
  {
    words: 'outbox',
    summary: 'list messages that wait until they may go',
    about:
      'Lists what was sent with --when-closed queue and waits until it may go (its user writes, or the pace allows it), in the order in which it goes out. What has been sent, has expired or was cancelled is not here any more: svc history tells.',
    takes: command =>
      command
        .option('-u, --user <user>', 'Only what waits for this user.')
        .option('-s, --session <session>', 'Only what this session is to send.'),
    examples: [['svc outbox', 'What waits, oldest first']],
    run: async (command, line) => (await import('../run-reads.ts')).listOutbox(line, command),
  },
  {
    words: 'outbox cancel',
    summary: 'take back what has not gone out yet',
    about:
      'Takes back a queued send. What has been sent already, or is being sent right now, stays as it is.',
    takes: command => command.argument('<id>', 'Id of the queued send, as svc outbox and svc send show it.'),
    examples: [['svc outbox cancel 12', 'By its id']],
    run: async (command, line) => (await import('../run-reads.ts')).cancelOutbox(line, command),
  },
  {
    words: 'approvals',
    summary: 'list what waits for a person to say yes',
    about:
      'Lists what agents want to send and nobody could be asked about: svc was started with --confirm-send, and the client has no way to ask, or its question was closed without an answer. Each waits 24 hours for a yes.',
    json: 'Print the result as one JSON value, texts whole.',
    examples: [['svc approvals', 'What waits, oldest first']],
    run: async (command, line) => (await import('../run-reads.ts')).listApprovals(line, command),
  },
  {
    words: 'approvals yes',
    summary: 'let it be sent',
    about:
      'Sends what waits for a yes. When it may not go now (window closed, answers used up, too fast) it goes on waiting for a yes, or for the user to write where the agent asked for that.',
    takes: command => command.argument('<id>', 'Id of the send, as svc approvals shows it.'),
    examples: [['svc approvals yes 12', 'By its id']],
    run: async (command, line) => (await import('../run-reads.ts')).approve(line, command),
  },
  {
    words: 'approvals no',
    summary: 'decline it',
    about: 'Declines what waits for a yes: it is never sent, and the agent learns that.',
    takes: command => command.argument('<id>', 'Id of the send, as svc approvals shows it.'),
    examples: [['svc approvals no 12', 'By its id']],
    run: async (command, line) => (await import('../run-reads.ts')).cancelOutbox(line, command),
  },
  {
    words: 'check',
    summary: 'ask WeChat now whether an account works',
    about:
      'Asks WeChat whether it still accepts the login of an account, in some seconds, and heals one that works again. Beside a running service that one asks; otherwise this command polls for as long as it takes, and what arrives is stored.',
    takes: command => command.argument('[session]', 'Only this session; all of them otherwise.'),
    examples: [['svc check', 'Every account, and exit status 1 unless all work']],
    run: async (command, line) => (await import('../run-reads.ts')).checkSessions(line, command),
  },
])
