/** The one factory: what svc offers over MCP, the same on every transport and in both eras of the protocol. */
import { McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { addAnnouncements } from './announcements.ts'
import { addCompletions } from './completions.ts'
import type { McpContext } from './context.ts'
import { instructionsFor } from './instructions.ts'
import { addPrompts } from './prompts.ts'
import { protocolError, refusedParams } from './protocol-error.ts'
import { addResources } from './resources.ts'
import { addTools, unchecked } from './tools.ts'

/** A server for one connection, or for one request of the stateless era. */
export function createMcpServer(context: McpContext): McpServer {
  const server = new McpServer(
    { name: 'svc', title: 'svc: WeChat bot tools', version: context.version },
    {
      instructions: instructionsFor(context.tools),
      // The tools never change while a process runs.
      capabilities: { tools: { listChanged: false }, logging: {} },
      // Answers of people are read with care where they are used; the default would load a whole validator.
      jsonSchemaValidator: unchecked,
    },
  )
  server.server.onerror = error => context.log.debug('mcp', { error })
  addTools(server, context)
  addResources(server, context)
  addPrompts(server, context)
  addCompletions(server, context)
  addAnnouncements(server, context)
  answerInOurWords(server, context)
  return server
}

type Handler = (request: unknown, ctx: ServerContext) => unknown

/**
 * The library checks a request inside its handler and answers what it refuses with -32603 and a dump of its validator.
 * It has no hook around every handler, so its list of them is taken (2.4.0; a test tells when that changes).
 */
function answerInOurWords({ server }: McpServer, { log }: McpContext): void {
  const { _requestHandlers: handlers } = server as unknown as { _requestHandlers: Map<string, Handler> }
  for (const [method, handler] of handlers)
    handlers.set(method, async (request, ctx) => {
      try {
        return await handler(request, ctx)
      } catch (error) {
        const { code } = error as { code?: unknown }
        const refused = refusedParams(method, error)
        // Others that bear a code are the library's own answers.
        if (refused) throw refused
        throw Number.isSafeInteger(code) ? error : protocolError(error, log, ctx.mcpReq?.signal)
      }
    })
}
