import { addEpilogue, type CommandLine, subcommand } from '../command.ts'
import type { HealthFlags } from '../health.ts'

/** `svc health`. */
export function add(line: CommandLine): void {
  const command = subcommand(line.program, 'health', 'ask a running service whether it works').description(
    'Ask GET /healthz of a running service and print its answer as one line. Needs no token and no data directory; waits 2 seconds at most. For HEALTHCHECK in containers and for monitoring.',
  )
  command
    .option('--host <address>', 'address the service is bound to (127.0.0.1) [SVC_HOST]')
    .option('-p, --port <port>', 'its port (8000) [SVC_PORT]')
    .option('--socket <path>', 'the Unix socket it listens on instead [SVC_SOCKET]')
    .option('--url <url>', 'its whole address instead, as in https://svc.example.org')
    .option('--sandbox', 'for a service with the pretend WeChat, which answers like any other [SVC_SANDBOX]')
    .option('--json', 'print one JSON object')
  addEpilogue(command, [
    ['svc health', 'on this machine'],
    ['HEALTHCHECK CMD ["svc", "health"]', 'in a Dockerfile'],
  ])
  command.addHelpText(
    'after',
    'Here 0 means that it works, 1 that it does not or does not answer. An account that is not connected is said and\nstill 0: a restart would not help it.',
  )
  command.action(async (flags: HealthFlags) => {
    const { runHealth } = await import('../health.ts')
    line.status = await runHealth(flags)
  })
}
