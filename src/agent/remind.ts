/**
 * The tool `remind`, with which an agent proposes a time. The agent starts an MCP server of its own for it
 * (`remind-stdio.ts`), which passes all on to a port on loopback, so that it works in a sandbox too. The port serves only
 * who shows a token. The token is good for this tool alone, and ends with the program of the agent.
 */
import { Buffer } from 'node:buffer'
import { once } from 'node:events'
import { realpath } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { McpServerStdio } from '@agentclientprotocol/sdk'
import { isSvcError } from '../index.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { partCommand } from '../platform/packed.ts'
import { partWords } from '../platform/process.ts'
import type { TurnContext } from './backend.ts'

const tokenLength = 64
/** Connections at the same time. An agent needs one. */
const maxConnections = 8
/** Time to show the token. */
const tokenMs = 10_000
/** Longest message of the protocol, in bytes. */
const longestMessage = 64 * 1024

const about =
  'Proposes that you get a prompt later, once or in a series: for a reminder, or to do something at a time. Your user sees the time and the text in the chat, and decides there with a code. Nothing is set before that. It answers at once with the time as it was understood.'
const aboutWhen =
  'In English or Chinese: "tomorrow 7:30", "2026-12-24 18:00", "in 2h", "every weekday 8:00", "每天8点".'
const aboutText = 'The prompt that you get then. It must be clear without this conversation.'

export class RemindTool {
  /** Proposes a time. Absent while the agent has no turn. */
  propose: TurnContext['propose']
  readonly #port = createServer(socket => this.#accept(socket))
  readonly #sockets = new Set<Socket>()
  readonly #token = nodeCrypto()
    .randomBytes(tokenLength / 2)
    .toString('hex')

  /** Opens the port. @returns how the agent starts its server */
  async open(): Promise<McpServerStdio> {
    this.#port.maxConnections = maxConnections
    await once(this.#port.listen(0, '127.0.0.1'), 'listening')
    const { port } = this.#port.address() as AddressInfo
    const [command, ...args] = partCommand(partWords.remind, import.meta.url, '--allow-net=127.0.0.1')
    const env = [{ name: 'REMIND_TOKEN', value: this.#token }]
    // In a sandbox only real paths are visible.
    return { name: 'svc', command: await realpath(command), args: [...args, String(port)], env }
  }

  close(): void {
    this.#port.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Serves a connection once it has shown the token. */
  #accept(socket: Socket): void {
    this.#sockets.add(socket)
    // A deadline: a caller that shows nothing, byte by byte, keeps no place.
    const deadline = setTimeout(() => socket.destroy(), tokenMs)
    socket.once('close', () => {
      clearTimeout(deadline)
      this.#sockets.delete(socket)
    })
    socket.on('error', () => {})
    const read = () => {
      const shown: Buffer | null = socket.read(tokenLength)
      if (shown === null) return
      socket.off('readable', read)
      clearTimeout(deadline)
      const isRight =
        shown.length === tokenLength && nodeCrypto().timingSafeEqual(shown, Buffer.from(this.#token))
      if (isRight) this.#serve(socket).catch(() => socket.destroy())
      else socket.destroy()
    }
    socket.on('readable', read)
  }

  async #serve(socket: Socket): Promise<void> {
    const [{ McpServer }, { serveStdio, StdioServerTransport }, { z }] = await Promise.all([
      import('@modelcontextprotocol/server'),
      import('@modelcontextprotocol/server/stdio'),
      import('zod'),
    ])
    const inputSchema = z.object({
      when: z.string().describe(aboutWhen),
      text: z.string().describe(aboutText),
    })
    const annotations = { readOnlyHint: false, destructiveHint: false, openWorldHint: false }
    // Else Claude Code shows its model only a search for tools.
    const _meta = { 'anthropic/alwaysLoad': true }
    const tool = { description: about, inputSchema, annotations, _meta }
    const transport = new StdioServerTransport(socket, socket, { maxBufferSize: longestMessage })
    const create = () => {
      const server = new McpServer({ name: 'svc', version: '1' })
      server.registerTool('remind', tool, ({ text, when }) => this.#call(when, text))
      return server
    }
    serveStdio(create, { transport })
  }

  async #call(when: string, text: string) {
    const say = (text: string) => ({ content: [{ type: 'text' as const, text }] })
    try {
      if (this.propose) return say(await this.propose(when, text))
      return { ...say('Nothing is proposed: this works only while you answer your user.'), isError: true }
    } catch (error) {
      if (!isSvcError(error)) throw error
      return { ...say(error.message), isError: true }
    }
  }
}
