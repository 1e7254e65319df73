/** Raw MCP requests over HTTP, for what no client sends. */

export const initialize = (protocolVersion = '2025-11-25') => ({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
})

export const post = (
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
) =>
  fetch(url, {
    ...(signal && { signal }),
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

/**
 * Opens a session.
 *
 * @returns the header with the session's id
 */
export async function openSession(url: string, version?: string, headers?: Record<string, string>) {
  const opened = await post(url, initialize(version), headers)
  await opened.text()
  return { 'mcp-session-id': opened.headers.get('mcp-session-id')! }
}

/** Returns the metadata that a client of revision 2026-07-28 sends in each message. */
export const modernMeta = (capabilities: object = {}) => ({
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': capabilities,
})

export const modernHeaders = (tool: string) => ({
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': 'tools/call',
  'mcp-name': tool,
})
