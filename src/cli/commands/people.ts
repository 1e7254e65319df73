/** Declares `svc forget`, and the command that a service runs for it. */
import type { Forgotten } from '../../model/person.ts'
import { forgetUser } from '../../operations/people.ts'
import { formatCount, formatLocalTime } from '../../platform/format.ts'
import { type CommandSpec, configFrom } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import type { OutputLines } from '../show.ts'
import { oneLine } from '../terminal.ts'

export const commands: readonly CommandSpec[] = [
  operationCommand(forgetUser, {
    changeMade: 'erased',
    render: result => ({ text: describeForgotten(result), note: listLeft(result) }),
  }),
  {
    words: 'scrub',
    summary: 'rewrite the message store after an erasure',
    about:
      'Rewrite messages.db, so that nothing that was erased is left in its free space. A service does this after forget.',
    hidden: true,
    noSandboxHint: 'ever',
    config: 'tool',
    examples: [['svc scrub', 'rewrite the message store']],
    async run(command) {
      const { scrubStore } = await import('../../gateway/directory.ts')
      await scrubStore(configFrom(command).basePath)
    },
  },
]

function describeForgotten({ hash, keys, messages, sends, webhooks }: Forgotten): OutputLines {
  const counts = [
    `${formatCount(messages, 'message')} erased`,
    `${formatCount(sends, 'send')} cancelled`,
    webhooks.length > 0 && `webhooks removed: ${webhooks.join(', ')}`,
    keys.length > 0 && `keys that no longer reach the user: ${keys.join(', ')}`,
  ]
  return [counts.filter(Boolean).join('; '), `The audit log names the user ${hash}`]
}

/** Names what still has the user, and agents without an owner. */
function listLeft({ agents, backups, remains }: Forgotten): OutputLines {
  const files = backups.map(({ path, created_at }) => `${oneLine(path)} (${formatLocalTime(created_at)})`)
  return [
    files.length > 0 && `These backups still have the user; remove them yourself: ${files.join(', ')}`,
    ...remains.map(what => `svc does not reach: ${what}`),
    agents.length > 0 &&
      `Nobody owns these agents now: ${agents.join(', ')}. A login of the account makes an owner.`,
  ]
}
