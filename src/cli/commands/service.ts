import type { Command } from 'commander'
import { badArgument } from '../../model/error.ts'
import { addConfigOptions, addEpilogue, type CommandLine, subcommand } from '../command.ts'
import type { NameFlags } from '../service-plan.ts'

/** `svc service install`, `svc service uninstall`, `svc service status`. */
export function add(line: CommandLine): void {
  const service = subcommand(
    line.program,
    'service',
    'run svc in the background, from the start of the machine on',
  ).helpCommand(false)
  addEpilogue(service.usage('install|uninstall|status [options]'), [
    ['sudo svc service install --user svc', 'for the machine, run as the user svc'],
    ['svc service install', 'for you alone, on your data directory'],
    ['svc service status', 'whether it runs, and well'],
  ]).action(() => {
    throw badArgument('service', 'expected install, uninstall or status')
  })

  const install = named(
    subcommand(service, 'install', 'install svc as a service and start it, or bring it up to date'),
  )
    .description(
      "Run 'svc openapi' with the options given here as a service of systemd or launchd: it starts with the machine (as an ordinary user: when you log in), and again when it fails. As root it is the machine's, locked in, and runs as an existing user on /var/lib/svc; else yours, on your data directory. What svc is told by the environment here goes along. Once more, with other options, changes and restarts it.",
    )
    .option('--print', 'only show the unit or property list, and change nothing')
  addEpilogue(
    addConfigOptions(install, 'openapi', {
      basePath:
        'data directory (of the machine: /var/lib/svc, with --sandbox /var/lib/svc-sandbox; yours: ~/.svc, ~/.svc-sandbox)',
    }),
    [
      ['sudo svc service install --user svc --admin-port 8080', 'for the machine, with the panel'],
      ['svc service install --sandbox', 'yours, with the pretend WeChat'],
      ['svc service install --print --system', 'the unit, for a package or to put it in place by hand'],
    ],
  ).action(async (flags: NameFlags) => {
    const { runInstall } = await import('../service.ts')
    line.status = await runInstall(install, flags)
  })

  const uninstall = named(subcommand(service, 'uninstall', 'stop the service and remove it; its data stay'))
  addEpilogue(uninstall, [['sudo svc service uninstall', 'the one of the machine']]).action(
    async (flags: NameFlags) => {
      const { runUninstall } = await import('../service.ts')
      await runUninstall(flags)
    },
  )

  const status = named(
    subcommand(service, 'status', 'say whether the service is installed, runs, and is healthy'),
  ).option('--json', 'print one JSON object; times are Unix milliseconds')
  addEpilogue(status, [
    ['svc service status', 'yours, else that of the machine'],
    ['svc service status --json | jq .healthy', 'for programs'],
  ])
  status.addHelpText('after', 'Here 0 means that it runs and is healthy, 1 anything else.')
  status.action(async (flags: NameFlags) => {
    const { runServiceStatus } = await import('../service.ts')
    line.status = await runServiceStatus(flags)
  })
}

/** Which service is meant. */
const named = (command: Command) =>
  command
    .option('--system', 'the service of the machine, as by default for root')
    .option(
      '--user [name]',
      'the service of this user, as by default for everybody else; with a name: that of the machine, which runs as that user (default on Linux: svc, on macOS: who called sudo)',
    )
    .option('--name <name>', 'what it is called, where there are several', 'svc')
