/** `svc token`: the token for a program that is to call the service. */
import { SvcError } from '../../model/error.ts'
import { currentToken, tokenPath } from '../../server/token.ts'
import { type CommandSpec, configFrom } from '../command.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'token',
    summary: 'print the token that callers of the service send',
    about:
      'Print the token that callers of the service on this data directory send: the one in SVC_TOKEN or SVC_TOKEN_FILE, else the one that was made for it. A token that the service was given with --token is not kept, so it is not known here. Changes nothing.',
    config: 'tool',
    examples: [
      [
        'curl -H "Authorization: Bearer $(svc token)" http://127.0.0.1:8000/tools',
        'a call of a service that others may reach',
      ],
      ['docker exec svc svc token', 'out of a container'],
    ],
    async run(command) {
      const config = configFrom(command)
      const token = await currentToken(config)
      if (token === undefined)
        throw new SvcError(
          'not_found',
          `no token was given, and none is kept in ${tokenPath(config.basePath)}`,
          {
            hint: 'A service on a loopback address needs none. One that other machines can reach makes a token when it starts. If it was started with --token, ask the person who started it.',
          },
        )
      await command.io.out.write(`${token}\n`)
    },
  },
]
