/** The relay on a real port over a gateway of the test. */
import { owner } from '../../src/model/principal.ts'
import { createLog } from '../../src/platform/log.ts'
import { serve } from '../../src/platform/serve.ts'
import { createRelay } from '../../src/relay/relay.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from '../support/gateway.ts'
import { type RelayProgram, relayProgram } from './protocol.ts'

export interface TestRelay extends AsyncDisposable {
  readonly t: TestGateway
  readonly url: string
  /** Adds a client of the session `default`, and returns its program. */
  add(name: string, options?: { answers?: string; users?: string[] }): Promise<RelayProgram>
}

export const maxUploadBytes = 100_000

export async function withRelay(options: TestGatewayOptions = {}): Promise<TestRelay> {
  const t = await withGateway(options)
  const door = createRelay({
    gateway: t.gateway,
    config: { maxUploadBytes },
    log: createLog('DEBUG', line => void t.lines.push(line)),
    off: () => new Response('off', { status: 404 }),
  })
  const server = await serve({ hostname: '127.0.0.1', port: 0, fetch: door.fetch })
  return {
    t,
    url: server.url,
    async add(name, { answers = 'all', users } = {}) {
      const input = { name, session: 'default', answers: answers as 'all', ...(users && { users }) }
      const { id, token } = await t.gateway.relayClients.add(owner, input)
      return relayProgram(server.url, id, token!, t.bots.get('default')!.user_id)
    },
    async [Symbol.asyncDispose]() {
      door.beginShutdown()
      await server.stop(0)
      await t[Symbol.asyncDispose]()
    },
  }
}
