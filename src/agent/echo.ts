/**
 * A scripted agent, for trying `svc agent` without an account of a model. It repeats each prompt; some words make it
 * do what agents do.
 */
import { Buffer } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { formatCount } from '../platform/format.ts'

/** What the agent needs to do its tricks. */
export interface EchoPorts {
  /** Folder in which it works. */
  readonly folder: string
  readonly signal: AbortSignal
  /** Asks the owner for permission. Absent: it cannot ask. */
  ask?(text: string): Promise<boolean>
}

type Trick = (ports: EchoPorts, number: number) => Promise<string>

const pictureName = 'picture.png'
/** A green speech bubble with a face, 96 by 96 pixels. */
const picture =
  'iVBORw0KGgoAAAANSUhEUgAAAGAAAABgAgMAAACf9p+rAAAACVBMVEX///8HwWD///+MuYmfAAABLElEQVR42u2WuxHDIAyG5cIjeB9GoAAXjOB9PAKFmTJxxEM8/nPiVLmLCnLRd9IfEBIh+tstU0PvZJ+mgX9EbLQ23ZKAHSbqk5WAJkT4K5VZAgMyyVxT5Rfycw0MyCRyNf78u6YW6Cswt8AA7awOAX/ZxaqE9hbKGtUZhLDn9QrMPTAFrCH4tCaw9BH2K1DtQ4Jq5xYc1RUY+PkUP091EzjPnvVoATvSZwFrAr6AWA8Gm28KZeOxygrGmnsO7C7D9hJx/fVxXKhD3mrewOlznDA1SKrtaXt/qd3pP6pLHfujBJi6o1wO6FptbxsddS3uczgZ4CyB0wfPKzjh3pqJGgECQAGgwWTXg5Fvhu/H+OlgoBAgAAwCGgGFAHgBkQQhCUIShCQISZD+kb8JD55zeOT2eV4rAAAAAElFTkSuQmCC'

const words = '`long`, `picture`, `ask`, `slow 5`, `fail`'

/** The words and what each does, in English and in Chinese. A word counts at the beginning of a line. */
const tricks: readonly (readonly [words: RegExp, trick: Trick])[] = [
  [/^(?:help|words|帮忙)$/i, async () => `I repeat what you write. These words do more: ${words}.`],
  [/^(?:long|长文)(?![a-z])/i, async (_ports, number) => longAnswer(number || 20)],
  [
    /^(?:picture|图片)(?![a-z])/i,
    async ({ folder }) => {
      await writeFile(join(folder, pictureName), Buffer.from(picture, 'base64'))
      return `Here is a picture.\n\n![A face](${pictureName})`
    },
  ],
  [
    /^(?:ask|询问)(?![a-z])/i,
    async ({ ask }) => {
      if (!ask) return 'I can ask only over ACP: svc agent --acp -- svc echo-agent --acp'
      return (await ask('delete everything (this is only a test)'))
        ? 'You allowed it. I did nothing, of course.'
        : 'You did not allow it, so I did not do it.'
    },
  ],
  [
    /^(?:slow|慢)(?![a-z])/i,
    async ({ signal }, number) => {
      const seconds = Math.min(number || 20, 3600)
      await sleep(seconds * 1000, undefined, { signal })
      return `That took ${formatCount(seconds, 'second')}.`
    },
  ],
  [
    /^(?:fail|失败)(?![a-z])/i,
    async () => {
      throw new Error('the echo agent fails, as it was told')
    },
  ],
]

/**
 * Answers a prompt.
 *
 * @throws Error for the word `fail`; the reason of the signal
 */
export async function echo(prompt: string, ports: EchoPorts): Promise<string> {
  const text = prompt.trim()
  for (const line of text.split('\n'))
    for (const [pattern, trick] of tricks)
      if (pattern.test(line.trim())) return trick(ports, Number(/\d{1,4}/.exec(line)?.[0] ?? 0))
  return text === '' ? 'You said nothing.' : `You said: ${text}`
}

const longAnswer = (count: number): string =>
  [
    '# A long answer',
    ...Array.from(
      { length: Math.min(count, 500) },
      (_, nth) =>
        `## Part ${nth + 1}\n\n${`This is part ${nth + 1}. It shows how an answer that is longer than a message arrives. `.repeat(12)}`,
    ),
    'The end.',
  ].join('\n\n')

/** Serves the agent over ACP on these streams, until the client closes them. */
export async function serveEchoOverAcp(input: Readable, output: Writable): Promise<void> {
  const { agent, methods, ndJsonStream } = await import('@agentclientprotocol/sdk')
  const folders = new Map<string, string>()
  const running = new Map<string, AbortController>()
  const open = (id: string, folder: string) => void folders.set(id, folder)
  const app = agent({ name: 'svc-echo-agent' })
    .onRequest(methods.agent.initialize, () => ({
      protocolVersion: 1,
      agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {} } },
      authMethods: [],
    }))
    .onRequest(methods.agent.session.new, ({ params }) => {
      const sessionId = randomUUID()
      open(sessionId, params.cwd)
      return { sessionId }
    })
    .onRequest(methods.agent.session.load, ({ params }) => {
      open(params.sessionId, params.cwd)
      return {}
    })
    .onRequest(methods.agent.session.resume, ({ params }) => {
      open(params.sessionId, params.cwd)
      return {}
    })
    .onNotification(methods.agent.session.cancel, ({ params }) => running.get(params.sessionId)?.abort())
    .onRequest(methods.agent.session.prompt, async ({ client, params: { prompt, sessionId } }) => {
      const stop = new AbortController()
      running.set(sessionId, stop)
      const text = prompt.map(block => (block.type === 'text' ? block.text : `[${block.type}]`)).join('\n')
      const ask = async (title: string) => {
        const { outcome } = await client.request(methods.client.session.requestPermission, {
          sessionId,
          toolCall: { toolCallId: randomUUID(), title, kind: 'delete', status: 'pending' },
          options: [
            { optionId: 'yes', name: 'Allow', kind: 'allow_once' },
            { optionId: 'no', name: 'Reject', kind: 'reject_once' },
          ],
        })
        return outcome.outcome === 'selected' && outcome.optionId === 'yes'
      }
      try {
        const folder = folders.get(sessionId) ?? process.cwd()
        const said = await echo(text, { folder, signal: stop.signal, ask })
        await client.notify(methods.client.session.update, {
          sessionId,
          update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: said } },
        })
        return { stopReason: 'end_turn' as const }
      } catch (error) {
        if (!stop.signal.aborted) throw error
        return { stopReason: 'cancelled' as const }
      } finally {
        running.delete(sessionId)
      }
    })
  const stream = ndJsonStream(
    Writable.toWeb(output) as WritableStream<Uint8Array>,
    Readable.toWeb(input) as unknown as ReadableStream<Uint8Array>,
  )
  await app.connect(stream).closed
}
