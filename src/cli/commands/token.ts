/** Declares `svc token`: prints the token that callers of the service must send. */

import { rejectClosed, rejectForeign } from '../../inspect/data-directory.ts'
import { SvcError } from '../../model/error.ts'
import { readCurrentToken, tokenPathOf } from '../../server/token.ts'
import { type CommandSpec, directoryFlagsOf, keyedConfig } from '../command.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'token',
    summary: 'print the token that callers of the service must send',
    about:
      'Print the token for the service on this data directory: the one in SVC_TOKEN or SVC_TOKEN_FILE, else the one that svc made. It is the master token: its callers may do everything, beside the keys of svc key. A token given with --token is not kept, so this command does not know it. Changes nothing.',
    config: 'tool',
    examples: [
      [
        'curl -H "Authorization: Bearer $(svc token)" http://127.0.0.1:8000/tools',
        'call a service that needs a token',
      ],
      ['docker exec svc svc token', 'from a container'],
    ],
    async run(command) {
      const config = keyedConfig(command)
      await rejectForeign(config)
      await rejectClosed(config.basePath, config.storeUrl !== undefined)
      const token = await readCurrentToken(config)
      if (token === undefined)
        throw new SvcError(
          'not_found',
          `no token was given, and none is kept in ${tokenPathOf(config.basePath)}`,
          {
            hint: `A service on a loopback address needs none until the first key is made, and svc key add${directoryFlagsOf(command)} makes a token then. One that other machines can reach makes a token when it starts. If it was started with --token, ask the person who started it.`,
          },
        )
      await command.io.out.write(`${token}\n`)
    },
  },
]
