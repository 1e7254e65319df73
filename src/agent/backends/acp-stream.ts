/** The messages of an agent over its stdin and stdout: a line of JSON each. */
import type { Buffer } from 'node:buffer'
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk'
import { Lines } from '../../platform/byte-lines.ts'
import { parseFields } from '../../platform/fields.ts'
import { type AgentProgram, agentError } from '../process.ts'

/** Longest line: a picture in it may have about 6 MB. */
const longestLine = 8 * 1024 * 1024

/** How many bytes an agent may print until the budget is set again. */
export interface OutputBudget {
  bytes: number
}

/**
 * Opens the stream of messages. What is not a message is passed over, and so is an answer that nobody waits for. The
 * stream fails with an SvcError if a line is too long, or the budget is used up.
 */
export function openMessages({ stdin, stdout }: AgentProgram, budget: OutputBudget): Stream {
  /** Requests without an answer. */
  const open = new Set<unknown>()
  const lines = readLines(stdout, budget)
  return {
    readable: new ReadableStream<AnyMessage>({
      async pull(controller) {
        for (;;) {
          const { done, value } = await lines.next()
          if (done) return controller.close()
          const message = parseMessage(value)
          if (!message || (!('method' in message) && !open.delete(message.id))) continue
          return controller.enqueue(message)
        }
      },
      cancel: () => void stdout.destroy(),
    }),
    writable: new WritableStream<AnyMessage>({
      write(message) {
        if ('method' in message && 'id' in message) open.add(message.id)
        return new Promise((resolve, reject) => {
          stdin.write(`${JSON.stringify(message)}\n`, error => (error ? reject(error) : resolve()))
        })
      },
    }),
  }
}

async function* readLines(stdout: AgentProgram['stdout'], budget: OutputBudget): AsyncGenerator<string> {
  const found: string[] = []
  const lines = new Lines(line => void found.push(line), longestLine)
  for await (const chunk of stdout as AsyncIterable<Buffer>) {
    budget.bytes -= chunk.length
    if (budget.bytes < 0) throw agentError('the agent prints too much')
    lines.add(chunk)
    if (lines.hasDropped) throw agentError('the agent prints a line that is too long')
    yield* found.splice(0)
  }
}

function parseMessage(line: string): AnyMessage | undefined {
  const message = line.startsWith('{') ? parseFields(line) : undefined
  return message?.jsonrpc === '2.0' ? (message as AnyMessage) : undefined
}
