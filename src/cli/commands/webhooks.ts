/** The commands about webhooks. */
import type { Command } from 'commander'
import { resultCommands } from '../command.ts'

const run = () => import('../run-webhooks.ts')
const ofOne = (command: Command) => command.argument('<id>', 'Id of the webhook, as svc webhook shows it.')
const id = 'wh_3f1c9a0b2d4e6f80'

export const webhooks = resultCommands([
  {
    words: 'webhook',
    summary: 'list where events are delivered to, and how that goes',
    about:
      'Lists the endpoints that events are delivered to: each message that comes, what becomes of those sent, changes of accounts. Whichever process polls delivers, signed by Standard Webhooks, each event at least once and in order per conversation.',
    examples: [['svc webhook', 'Every endpoint']],
    run: async (command, line) => (await run()).list(line, command),
  },
  {
    words: 'webhook list',
    summary: 'the same as svc webhook alone',
    examples: [['svc webhook list', 'Every endpoint']],
    run: async (command, line) => (await run()).list(line, command),
  },
  {
    words: 'webhook add',
    summary: 'deliver events to an address from now on',
    about:
      'Adds an endpoint, and shows the secret that deliveries are signed with, this once. Only an answer of 2xx counts as delivered; anything else comes again later.',
    takes: command =>
      command
        .argument('<url>', 'An http or https address.')
        .option(
          '--types <types>',
          'Only these events, separated by commas: message.received, message.status, session.status, endpoint.disabled.',
        )
        .option('-s, --session <session>', 'Only events of this session.')
        .option('-u, --user <user>', 'Only messages from and to this user, by id.')
        .option(
          '--header <header>',
          'A header to send along, as in "Authorization: Bearer abc"; its value is never shown again. Repeatable.',
          (one: string, before: string[] = []) => [...before, one],
        )
        .option('--allow-private', 'The address may be of your own network, or of this machine.')
        .option('--replies', 'Send the text of an answer {"reply": {"text": …}} to the user who wrote.'),
    examples: [
      ['svc webhook add https://example.com/hook', 'Everything that happens'],
      [
        'svc webhook add http://127.0.0.1:5678/webhook/svc --allow-private --types message.received',
        'To n8n on this machine',
      ],
    ],
    run: async (command, line) => (await run()).add(line, command),
  },
  {
    words: 'webhook show',
    summary: 'how one endpoint does',
    takes: ofOne,
    examples: [[`svc webhook show ${id}`, 'Whether it works, since when not, and why']],
    run: async (command, line) => (await run()).show(line, command),
  },
  {
    words: 'webhook test',
    summary: 'deliver a test now',
    about:
      'Delivers an event of type webhook.test, and tells what came of it. Exit status 1 where it failed.',
    takes: ofOne,
    examples: [[`svc webhook test ${id}`, 'Whether the receiver answers']],
    run: async (command, line) => (await run()).test(line, command),
  },
  {
    words: 'webhook log',
    summary: 'the newest tries to deliver',
    takes: command =>
      ofOne(command)
        .option('-n, --limit <count>', 'Tries at most.', '20')
        .option('--outcome <outcome>', 'Only those that came to this: done, failed, gave_up.'),
    examples: [[`svc webhook log ${id} --outcome gave_up`, 'What was not delivered in the end']],
    run: async (command, line) => (await run()).log(line, command),
  },
  {
    words: 'webhook pause',
    summary: 'deliver nothing until it is resumed',
    takes: ofOne,
    examples: [[`svc webhook pause ${id}`, 'What happens meanwhile waits']],
    run: async (command, line) => (await run()).pause(line, command, true),
  },
  {
    words: 'webhook resume',
    summary: 'go on from where it was, also where svc switched it off',
    takes: ofOne,
    examples: [[`svc webhook resume ${id}`, 'Deliver what waits, and what comes']],
    run: async (command, line) => (await run()).pause(line, command, false),
  },
  {
    words: 'webhook rotate',
    summary: 'a new secret; that of before signs as well for 24 hours',
    takes: ofOne,
    examples: [[`svc webhook rotate ${id}`, 'Shows the new secret, this once']],
    run: async (command, line) => (await run()).rotate(line, command),
  },
  {
    words: 'webhook replay',
    summary: 'deliver events again',
    about: 'Delivers everything again from an event or a time on, with the ids that it had.',
    takes: command =>
      ofOne(command)
        .requiredOption(
          '--from <from>',
          'Id of an event, as svc webhook log shows it, or a time such as 2026-01-31, 1h or yesterday.',
        )
        .option('--dry-run', 'Only say what would be delivered again.'),
    examples: [
      [`svc webhook replay ${id} --from 1h --dry-run`, 'How much that would be'],
      [`svc webhook replay ${id} --from 1h`, 'What happened in the last hour'],
    ],
    run: async (command, line) => (await run()).replay(line, command),
  },
  {
    words: 'webhook remove',
    summary: 'deliver nothing to it any more',
    takes: ofOne,
    examples: [[`svc webhook remove ${id}`, 'Its log goes with it']],
    run: async (command, line) => (await run()).remove(line, command),
  },
])
