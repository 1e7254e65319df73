import { addConfigOptions, type CommandLine, configFrom, subcommand } from '../command.ts'

/** Where the panel listens unless told otherwise. */
const usualPort = 8080

/** `svc admin`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(program, 'admin', 'serve the admin panel alone, for a browser')
  addConfigOptions(command, 'admin').action(async () => {
    const config = configFrom(command)
    const { serveAdmin } = await import('../panel.ts')
    await serveAdmin(Object.freeze({ ...config, adminPort: config.adminPort ?? usualPort }))
  })
}
