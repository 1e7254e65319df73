/** Declares `svc invite` and its subcommands: links by which people log an account in by themselves. */
import { badArgument } from '../../model/error.ts'
import type { AddedInvitation, Invitation } from '../../model/invitation.ts'
import * as invite from '../../operations/invitations.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, formatNote, unprintedError } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { parseTypedEnd, timeForms } from '../typed-time.ts'

export const commands = [
  operationCommand(invite.listInvitations, { createEmpty: () => [], render: formatInvitations }),
  operationCommand(invite.addInvitation, {
    toInput(typed, _command, now) {
      const { expires_at } = typed
      const end = typeof expires_at === 'string' ? parseTypedEnd(expires_at, now) : expires_at
      if (expires_at !== undefined && end === undefined)
        throw badArgument('--expires', `expected a span from now on such as 7d, or ${timeForms}`)
      return { ...typed, ...(expires_at !== undefined && { expires_at: end }) }
    },
    render: formatAdded,
    async undoUnprinted(ask, { id }) {
      await ask(invite.revokeInvitation, { id })
      throw unprintedError('nobody was invited: the link, which is shown once, could not be printed')
    },
  }),
  operationCommand(invite.revokeInvitation, {
    changeMade: 'revoked',
    render: ({ name, id }) => ({ text: `revoked: ${oneLine(name)} (${oneLine(id)})\n` }),
  }),
]

function formatInvitations(all: readonly Invitation[]): CommandOutput {
  if (all.length === 0)
    return { note: formatNote('no invitations: svc invite add <name> makes one; see svc invite add --help') }
  const columns: Column<Invitation>[] = [
    ['id', ({ id }) => oneLine(id)],
    ['name', ({ name }) => oneLine(name)],
    ['status', ({ status }) => (status === 'active' ? colours.green : colours.dim)(status)],
    ['used', ({ uses, used }) => `${used} of ${uses}`],
    ['ends', ({ expires_at, revoked_at }) => formatLocalTime(revoked_at ?? expires_at)],
    ['agent', ({ agent = '–', trusted }) => `${oneLine(agent)}${trusted ? ' (trusted)' : ''}`],
    ['accounts', ({ sessions }) => sessions.map(oneLine).join(', ') || '–'],
  ]
  return { text: formatTable(all, columns, colours.dim) }
}

function formatAdded({ agent, agent_runs, expires_at, link, note, uses }: AddedInvitation): CommandOutput {
  const people = uses === 1 ? 'one person' : `${uses} people`
  const silence =
    agent === undefined
      ? 'No agent answers: --agent names one.'
      : `The agent ${oneLine(agent)} does not run now. Nobody answers until it does: svc agent --name ${oneLine(agent)}`
  const facts = [
    `For ${people}, until ${formatLocalTime(expires_at)}. The link is shown this once.`,
    ...(agent_runs ? [] : [silence]),
    ...(note === undefined ? [] : [note]),
  ]
  return { text: `${link}\n`, note: formatNote(facts.join('\n')) }
}
