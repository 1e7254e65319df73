/** The one factory: what svc offers over MCP, the same on every transport and in both eras of the protocol. */
import { McpServer } from '@modelcontextprotocol/server'
import { addAnnouncements } from './announcements.ts'
import type { CallDoor } from './call.ts'
import { addCompletions } from './completions.ts'
import type { McpContext } from './context.ts'
import { instructions } from './instructions.ts'
import { addPrompts } from './prompts.ts'
import { addResources } from './resources.ts'
import { addTools } from './tools.ts'

/** A server for one connection, or for one request of the stateless era. */
export function createMcpServer(context: McpContext, door: CallDoor): McpServer {
  const server = new McpServer(
    {
      name: 'svc',
      title: 'svc: WeChat bot tools',
      version: context.version,
    },
    {
      instructions,
      // The tools never change while a process runs.
      capabilities: { tools: { listChanged: false }, logging: {} },
      // Answers of people are read with care where they are used; the default would load a whole validator.
      jsonSchemaValidator: {
        getValidator: () => input => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
    },
  )
  server.server.onerror = error => context.log.debug('mcp', { error })
  addTools(server, context, door)
  addResources(server, context)
  addPrompts(server, context)
  addCompletions(server, context)
  addAnnouncements(server, context)
  return server
}
