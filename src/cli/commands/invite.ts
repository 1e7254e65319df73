/** Declares `svc invite` and its subcommands: links by which people log an account in by themselves. */
import type { AddedInvitation } from '../../model/invitation.ts'
import * as invite from '../../operations/invitations.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, tableView, unprintedError } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(
    invite.listInvitations,
    tableView('no invitations: svc invite add <name> makes one; see svc invite add --help', [
      ['id', 'id'],
      ['name', 'name'],
      ['status', ({ status }) => (status === 'active' ? colours.green : colours.dim)(status)],
      ['used', ({ max_uses, used }) => `${used} of ${max_uses}`],
      ['ends', ({ expires_at, revoked_at }) => formatLocalTime(revoked_at ?? expires_at)],
      ['agent', ({ agent = '–', trusted }) => `${oneLine(agent)}${trusted ? ' (trusted)' : ''}`],
      ['accounts', ({ sessions }) => sessions.map(oneLine).join(', ') || '–'],
    ]),
  ),
  operationCommand(invite.addInvitation, {
    render: formatAdded,
    async undoUnprinted(ask, { id }) {
      await ask(invite.revokeInvitation, { id })
      throw unprintedError('nobody was invited: the link, which is shown once, could not be printed')
    },
  }),
  operationCommand(invite.revokeInvitation, {
    changeMade: 'revoked',
    render: ({ name, id }) => [`revoked: ${oneLine(name)} (${oneLine(id)})`],
  }),
]

function formatAdded({ agent, agent_runs, expires_at, link, note, ...one }: AddedInvitation): CommandOutput {
  const people = one.max_uses === 1 ? 'one person' : `${one.max_uses} people`
  const silence =
    agent === undefined
      ? 'No agent answers: --agent names one.'
      : `The agent ${oneLine(agent)} does not run now. Nobody answers until it does: svc agent --name ${oneLine(agent)}`
  const facts = `For ${people}, until ${formatLocalTime(expires_at)}. The link is shown this once.`
  return { text: [link], note: [facts, !agent_runs && silence, note] }
}
