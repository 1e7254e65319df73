/** `svc token`: the token for a program that is to call the service. */
import type { Config } from '../config.ts'
import { SvcError } from '../model/error.ts'
import { currentToken, tokenPath } from '../server/token.ts'
import { writeOut } from './terminal.ts'

/** Runs the command. @throws SvcError `not_found` where there is no token */
export async function runToken(config: Config): Promise<void> {
  const token = await currentToken(config)
  if (token === undefined) {
    throw new SvcError('not_found', `no token was given, and none is kept in ${tokenPath(config.basePath)}`, {
      hint: 'A service on a loopback address needs none. One that other machines reach makes it at its start, unless it was given one: that is known to whoever gave it.',
    })
  }
  await writeOut(`${token}\n`)
}
