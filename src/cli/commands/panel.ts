/** Declares `svc panel link`: prints a link that signs in to the panel of a running service. */
import { listNotes } from '../../config/notes.ts'
import { rejectForeign } from '../../inspect/data-directory.ts'
import { SvcError } from '../../model/error.ts'
import { createPanelLink } from '../../operations/sign-in.ts'
import { type CommandSpec, directoryFlagsOf, requireSubcommand } from '../command.ts'
import { commandCall, configToRead, createAsk, openForCommand } from '../open.ts'
import { formatNote } from '../show.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'panel',
    summary: 'print a link that signs in to the panel',
    examples: [['svc panel link', 'a link to the running panel']],
    run: requireSubcommand('panel', 'link'),
  },
  {
    words: 'panel link',
    summary: 'print a link that signs in to the panel, once',
    about:
      'Print a link that signs a browser in to the panel of the service on this data directory, as the owner. It works once, within 15 minutes, and the next one replaces it. From another machine, put the address under which the panel is reached there in its place.',
    config: 'tool',
    examples: [
      ['svc panel link', 'open it in a browser'],
      ['docker compose exec svc svc panel link', 'from a container'],
    ],
    async run(command) {
      const { io } = command
      const config = await configToRead(command)
      await rejectForeign(config)
      const panel = (await listNotes(config.basePath)).findLast(one => one.panel)?.panel
      if (panel === undefined)
        throw new SvcError('not_found', `no service on ${config.basePath} serves a panel`, {
          hint: `svc openapi --admin-port 8080${directoryFlagsOf(command)} serves one.`,
        })
      using call = commandCall(io)
      await using opened = await openForCommand(config, io)
      const { path } = await createAsk(opened, call)(createPanelLink, {})
      await io.out.write(`${panel}${path}\n`)
      if (io.err.isTerminal) await io.err.write(formatNote('It signs in once, within 15 minutes.'))
    },
  },
]
