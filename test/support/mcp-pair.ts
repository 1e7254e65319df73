/** An MCP client and svc's MCP server, connected in memory, over a real gateway. */

import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { ResourceChangeNotifier } from '../../src/mcp/announcements.ts'
import type { McpContext } from '../../src/mcp/context.ts'
import { QuestionTickets } from '../../src/mcp/questions.ts'
import { createMcpServer } from '../../src/mcp/server.ts'
import { stdio } from '../../src/model/principal.ts'
import { silentLog } from '../../src/platform/log.ts'
import { ShutdownSignal } from '../../src/server/http-call.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from './gateway.ts'

export interface McpPair extends AsyncDisposable {
  readonly t: TestGateway
  readonly client: Client
  readonly changes: ResourceChangeNotifier
  /** URIs announced to the client so far; '' for a changed list. */
  readonly news: string[]
  /** Ends the server's side of the connection. */
  close(): void
}

export async function withMcpPair(
  options: TestGatewayOptions & { context?: Partial<McpContext> } = {},
): Promise<McpPair> {
  const t = await withGateway(options)
  const changes = new ResourceChangeNotifier({ gateway: t.gateway, log: silentLog })
  const closed = new AbortController()
  const context: McpContext = {
    gateway: t.gateway,
    tools: [],
    log: silentLog,
    version: '0.0.0',
    confirmSend: false,
    structured: true,
    changes,
    by: stdio,
    local: true,
    era: 'legacy',
    lasting: true,
    closed: closed.signal,
    calls: {
      waiting: new ShutdownSignal(),
      questions: new QuestionTickets(),
      deliver: call => call.report(true),
    },
    ...options.context,
  }
  const server = createMcpServer(context)
  const client = new Client({ name: 'test', version: '0.0.0' })
  const news: string[] = []
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void news.push(params.uri))
  client.setNotificationHandler('notifications/resources/list_changed', () => void news.push(''))
  const [near, far] = InMemoryTransport.createLinkedPair()
  await Promise.all([client.connect(near), server.connect(far)])
  return {
    t,
    client,
    changes,
    news,
    close: () => closed.abort(),
    async [Symbol.asyncDispose]() {
      closed.abort()
      await client.close()
      await t[Symbol.asyncDispose]()
    },
  }
}
