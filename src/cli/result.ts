/** Commands that read one thing from a data directory, or change one, and print what came of it, also as JSON. */
import type { Gateway, PanelGateway } from '../gateway/gateway-api.ts'
import { againFlags, type Command, type CommandSpec, toolConfig } from './command.ts'
import { jsonLine } from './print.ts'
import { noDirectory, type Shown, writeNote } from './show.ts'
import { type Io, NotPrinted } from './terminal.ts'

type CommandGateway = Pick<PanelGateway, keyof Gateway | 'clock'>

export interface ResultSpec<T, Typed> extends Omit<CommandSpec, 'run'> {
  /** What was typed, checked before anything is opened or made. */
  typed(command: Command): Typed | Promise<Typed>
  work(gateway: CommandGateway, typed: Typed, io: Io): Promise<T>
  /** The result for people; `again` as of `againFlags`. */
  show(result: T, again: string, of: { typed: Typed; gateway: CommandGateway }): Shown | Promise<Shown>
  /** It changes nothing, see `configToRead`. */
  reads?: true
  /** What there is to see where there is no data directory, unless something was named: then none is made. */
  nothing?: T
  /** Exit status 1 then. */
  nothingFails?: boolean
  /** What the work has changed, such as `removed`, for who cannot be shown the result. */
  done?: string
  /** Of a result that matters more than the deed: takes that back as far as possible. @throws what to tell */
  unprinted?(gateway: CommandGateway, result: T): Promise<never>
}

/** Such a command, with the options of all that do one thing. */
export const resultCommand = <T, Typed>(given: ResultSpec<T, Typed>): CommandSpec => {
  const { typed, work, show, reads, nothing, nothingFails = false, done, unprinted, ...spec } = given
  return {
    config: 'tool',
    json: 'Print the result as one JSON value.',
    ...spec,
    async run(command, line) {
      const asked = await typed(command)
      const { configToRead, isAbsent, openForCommand, refuseAbsent } = await import('./open.ts')
      const config = reads ? await configToRead(command) : toolConfig(command)
      const again = againFlags(command)
      const tell = async (result: T, seen: Shown) => {
        if (command.opts().json === true) await command.io.out.write(`${jsonLine(result)}\n`)
        else {
          await command.io.out.write(seen.text)
          await writeNote(seen, command)
        }
        return seen.failed ? 1 : 0
      }
      if (nothing !== undefined && command.args.length === 0 && (await isAbsent(config))) {
        refuseAbsent(command.opts())
        return tell(nothing, { ...noDirectory(config.basePath, again), failed: nothingFails })
      }
      await using opened = await openForCommand(config, command.io)
      const { gateway } = opened
      const result = await work(gateway, asked, command.io)
      const seen = await show(result, again, { typed: asked, gateway })
      line.done = done
      return await tell(result, seen).catch(error => {
        if (unprinted && error instanceof NotPrinted) return unprinted(gateway, result)
        throw error
      })
    },
  }
}

/** One that takes a single word, which its `work` gets; '' without it. */
export const wordCommand = <T>(spec: Omit<ResultSpec<T, string>, 'typed'>): CommandSpec =>
  resultCommand({ ...spec, typed: ({ args: [word = ''] }) => word })
