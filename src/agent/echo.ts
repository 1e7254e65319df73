/**
 * A scripted agent, for trying `svc agent` without an account of a model. It repeats each prompt; some words make it
 * do what agents do.
 */
import { Buffer } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import process from 'node:process'
import { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  AgentContext,
  McpServer,
  McpServerStdio,
  PromptRequest,
  PromptResponse,
} from '@agentclientprotocol/sdk'
import { parseFields } from '../platform/fields.ts'
import { readText, replaceFile } from '../platform/files.ts'
import { formatCount } from '../platform/format.ts'

/** What the agent needs to do its tricks. */
export interface EchoPorts {
  /** Folder in which it works. */
  readonly folder: string
  readonly signal: AbortSignal
  /** Asks the owner for permission. Absent: it cannot ask. */
  ask?(text: string): Promise<boolean>
  /** Proposes a time. Absent: it has no tool for that. @returns what the tool says */
  remind?(when: string): Promise<string>
  /** Over ACP: how it works. */
  readonly session?: EchoSession
}

/** A session over ACP. Its folder keeps it. */
interface EchoSession {
  readonly folder: string
  mode: string
  model: string
  title: string
  at: number
  prompts: number
}

type Trick = (ports: EchoPorts, number: number, line: string) => Promise<string>

const pictureName = 'picture.png'
/** A green speech bubble with a face, 96 by 96 pixels. */
const picture =
  'iVBORw0KGgoAAAANSUhEUgAAAGAAAABgAgMAAACf9p+rAAAACVBMVEX///8HwWD///+MuYmfAAABLElEQVR42u2WuxHDIAyG5cIjeB9GoAAXjOB9PAKFmTJxxEM8/nPiVLmLCnLRd9IfEBIh+tstU0PvZJ+mgX9EbLQ23ZKAHSbqk5WAJkT4K5VZAgMyyVxT5Rfycw0MyCRyNf78u6YW6Cswt8AA7awOAX/ZxaqE9hbKGtUZhLDn9QrMPTAFrCH4tCaw9BH2K1DtQ4Jq5xYc1RUY+PkUP091EzjPnvVoATvSZwFrAr6AWA8Gm28KZeOxygrGmnsO7C7D9hJx/fVxXKhD3mrewOlznDA1SKrtaXt/qd3pP6pLHfujBJi6o1wO6FptbxsddS3uczgZ4CyB0wfPKzjh3pqJGgECQAGgwWTXg5Fvhu/H+OlgoBAgAAwCGgGFAHgBkQQhCUIShCQISZD+kb8JD55zeOT2eV4rAAAAAElFTkSuQmCC'

const words = '`long`, `picture`, `ask`, `remind tomorrow 7:30`, `about`, `slow 5`, `fail`'

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
    async ({ ask, session }) => {
      if (session?.mode === 'free') return 'I asked nobody, and did nothing, of course.'
      if (!ask) return 'I can ask only over ACP: svc agent --acp -- svc echo-agent --acp'
      return (await ask('delete everything (this is only a test)'))
        ? 'You allowed it. I did nothing, of course.'
        : 'You did not allow it, so I did not do it.'
    },
  ],
  [
    /^(?:remind|提醒)(?![a-z])/i,
    async ({ remind }, _number, line) =>
      remind?.(line.replace(/^\s*(?:remind|提醒)/i, '').trim()) ?? 'I have no tool for that.',
  ],
  [
    /^(?:about|关于)(?![a-z])/i,
    async ({ folder, session: { mode, model, prompts } = { mode: 'own', model: 'own', prompts: 1 } }) =>
      `Mode ${mode}, model ${model}, folder ${basename(folder)}, message ${prompts} of this conversation.`,
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
  if (text.startsWith('/shout ')) return text.slice('/shout '.length).toUpperCase()
  for (const line of text.split('\n'))
    for (const [pattern, trick] of tricks)
      if (pattern.test(line.trim())) return trick(ports, Number(/\d{1,4}/.exec(line)?.[0] ?? 0), line)
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

/** What can be chosen over ACP. The first holds in a new session. */
const choices = {
  mode: { careful: 'Asks before it acts', free: 'Acts without asking' },
  model: { small: 'Repeats', large: 'Repeats just the same' },
} as const

const offersOf = (session: EchoSession) => ({
  configOptions: (['mode', 'model'] as const).map(id => {
    const options = Object.entries(choices[id]).map(([value, description]) => ({
      value,
      name: value,
      description,
    }))
    return { id, name: id, category: id, type: 'select' as const, currentValue: session[id], options }
  }),
})

/** The sessions of a folder, which keeps them. */
const fileOf = (folder: string) => join(folder, '.echo-sessions.json')
const readSessions = async (folder: string) =>
  parseFields((await readText(fileOf(folder))) ?? '{}') as Record<string, EchoSession> | undefined

/** Serves the agent over ACP on these streams, until the client closes them. */
export async function serveEchoOverAcp(input: Readable, output: Writable): Promise<void> {
  const { agent, methods, ndJsonStream, RequestError } = await import('@agentclientprotocol/sdk')
  const sessions = new Map<string, EchoSession>()
  const running = new Map<string, AbortController>()
  const servers = new Map<string, McpServer | undefined>()
  type Going = { client: AgentContext; params: { cwd: string; mcpServers?: McpServer[] } }
  const begin = async ({ client, params }: Going, sessionId: string, session: EchoSession | undefined) => {
    if (!session) throw RequestError.sessionNotFound(sessionId)
    sessions.set(sessionId, session)
    servers.set(sessionId, params.mcpServers?.[0])
    const availableCommands = [{ name: 'shout', description: 'Repeats in capitals' }]
    const update = { sessionUpdate: 'available_commands_update' as const, availableCommands }
    await client.notify('session/update', { sessionId, update })
    return { sessionId, ...offersOf(session) }
  }
  const goOn = async (going: Going & { params: { sessionId: string } }) => {
    const { cwd, sessionId } = going.params
    return begin(going, sessionId, sessions.get(sessionId) ?? (await readSessions(cwd))?.[sessionId])
  }
  const app = agent({ name: 'svc-echo-agent' })
    .onRequest(methods.agent.initialize, () => ({
      protocolVersion: 1,
      agentCapabilities: { loadSession: true, sessionCapabilities: { list: {}, resume: {} } },
      authMethods: [],
    }))
    .onRequest(methods.agent.session.new, going => {
      const session = { mode: 'careful', model: 'small', title: '', at: 0, prompts: 0 }
      return begin(going, randomUUID(), { folder: going.params.cwd, ...session })
    })
    .onRequest(methods.agent.session.load, goOn)
    .onRequest(methods.agent.session.resume, goOn)
    .onRequest(methods.agent.session.list, async ({ params: { cwd } }) => {
      const all = Object.entries((await readSessions(cwd ?? process.cwd())) ?? {})
      return {
        sessions: all.map(([sessionId, { at, folder, title }]) => {
          return { sessionId, cwd: folder, title, updatedAt: new Date(at).toISOString() }
        }),
      }
    })
    .onRequest(methods.agent.session.setConfigOption, ({ params: { configId, sessionId, value } }) => {
      const session = sessions.get(sessionId)
      if (!session || (configId !== 'mode' && configId !== 'model')) throw RequestError.invalidParams()
      session[configId] = String(value)
      return offersOf(session)
    })
    .onNotification(methods.agent.session.cancel, ({ params }) => running.get(params.sessionId)?.abort())
    .onRequest(methods.agent.session.prompt, async ({ client, params }) => {
      const stop = new AbortController()
      const session = sessions.get(params.sessionId)
      if (!session) throw RequestError.sessionNotFound(params.sessionId)
      running.set(params.sessionId, stop)
      return answer(client, params, session, servers.get(params.sessionId), stop.signal)
    })
  const stream = ndJsonStream(
    Writable.toWeb(output) as WritableStream<Uint8Array>,
    Readable.toWeb(input) as unknown as ReadableStream<Uint8Array>,
  )
  await app.connect(stream).closed
}

/** Calls the tool of svc, as real agents do: by the server that svc named. */
async function callRemind({ args, command, env }: McpServerStdio, when: string): Promise<string> {
  const [{ Client }, { StdioClientTransport }] = await Promise.all([
    import('@modelcontextprotocol/client'),
    import('@modelcontextprotocol/client/stdio'),
  ])
  const client = new Client({ name: 'svc-echo-agent', version: '1' })
  const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]))
  await client.connect(new StdioClientTransport({ command, args, env: variables }))
  const called = { name: 'remind', arguments: { when, text: 'Hello again' } }
  const { content } = await client.callTool(called)
  await client.close()
  return content.map(block => (block.type === 'text' ? block.text : '')).join('\n')
}

async function answer(
  client: AgentContext,
  { prompt, sessionId }: PromptRequest,
  session: EchoSession,
  server: McpServer | undefined,
  signal: AbortSignal,
): Promise<PromptResponse> {
  const { folder, title } = session
  const text = prompt.map(block => (block.type === 'text' ? block.text : `[${block.type}]`)).join('\n')
  const ask = async (title: string) => {
    const { outcome } = await client.request('session/request_permission', {
      sessionId,
      toolCall: { toolCallId: randomUUID(), title, kind: 'delete', status: 'pending' },
      options: [
        { optionId: 'yes', name: 'Allow', kind: 'allow_once' },
        { optionId: 'no', name: 'Reject', kind: 'reject_once' },
      ],
    })
    return outcome.outcome === 'selected' && outcome.optionId === 'yes'
  }
  Object.assign(session, { title: title || text.slice(0, 100), at: Date.now(), prompts: session.prompts + 1 })
  const all = { ...(await readSessions(folder)), [sessionId]: session }
  await replaceFile(fileOf(folder), JSON.stringify(all))
  try {
    const remind = server && 'command' in server ? (when: string) => callRemind(server, when) : undefined
    const said = await echo(text, { folder, signal, ask, session, ...(remind && { remind }) })
    const content = { type: 'text' as const, text: said }
    await client.notify('session/update', {
      sessionId,
      update: { sessionUpdate: 'agent_message_chunk', content },
    })
    return { stopReason: 'end_turn' }
  } catch (error) {
    if (!signal.aborted) throw error
    return { stopReason: 'cancelled' }
  }
}
