import { addConfigOptions, addEpilogue, type CommandLine, configFrom, subcommand } from '../command.ts'

/** Where the panel listens unless told otherwise. */
const usualPort = 8080

/** `svc admin`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(program, 'admin', 'serve the admin panel alone, for a browser').description(
    'Serve the admin panel until Ctrl-C: accounts, conversations and settings, for a browser. It polls too, unless another process does; beside a service, svc openapi --admin-port serves it from that one process. Where others can reach it, it asks for the token: the start prints a link that signs you in once.',
  )
  addEpilogue(addConfigOptions(command, 'admin'), [
    ['svc admin', `on http://127.0.0.1:${usualPort}, for this machine`],
    ['svc admin --host 0.0.0.0 --admin-port 9000', 'for other machines, with a token that is made for it'],
  ]).action(async () => {
    // It serves no REST, so that port cannot be in the way.
    const config = configFrom(command, { port: '0' })
    const { serveAdmin } = await import('../panel.ts')
    await serveAdmin(Object.freeze({ ...config, adminPort: config.adminPort ?? usualPort }))
  })
}
