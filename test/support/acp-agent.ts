/**
 * An agent program for tests, written with the agent side of the official library. A prompt says what it does; options
 * say what it is.
 *
 *   bun test/support/acp-agent.ts [--resume] [--load] [--replay before|around|slow|endless|prompt] [--echo no|whole|pieces]
 *     [--ids] [--pictures] [--junk] [--login] [--modes modes|config] [--models models|config] [--list FILE]
 *     [--commands before|after] [--version N] [--fail initialize|exit|line] [--store FILE]
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { Readable, Writable } from 'node:stream'
import { parseArgs } from 'node:util'
import {
  type AgentContext,
  agent,
  type McpServer,
  ndJsonStream,
  RequestError,
  type RequestPermissionRequest,
} from '@agentclientprotocol/sdk'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

const { values: options } = parseArgs({
  options: {
    resume: { type: 'boolean' },
    load: { type: 'boolean' },
    /** When it tells what was said in a session that it loads. `around`, `slow`, `endless`: also after its answer; `prompt`: when the next prompt comes. */
    replay: { type: 'string', default: 'before' },
    /** Whether it repeats the prompt at the begin of a turn. */
    echo: { type: 'string', default: 'no' },
    /** Its messages have ids. */
    ids: { type: 'boolean' },
    pictures: { type: 'boolean' },
    junk: { type: 'boolean' },
    login: { type: 'boolean' },
    version: { type: 'string', default: '1' },
    fail: { type: 'string' },
    /** It asks only in the mode "manual", offered this way. Each session begins in the mode "auto". */
    modes: { type: 'string' },
    /** Models that it offers this way. The model "large" changes the mode to "auto". */
    models: { type: 'string' },
    /** File with what it answers to `session/list`. */
    list: { type: 'string' },
    /** When it tells its commands: before it answers with the session, or after. */
    commands: { type: 'string' },
    /** File with the prompts of each session, for the next process. */
    store: { type: 'string' },
  },
})

/** The prompts of each session. */
let sessions: Record<string, string[]> = {}
try {
  if (options.store) sessions = JSON.parse(readFileSync(options.store, 'utf8'))
} catch {
  // The first process has no file.
}
const cancelled = new Map<string, () => void>()
/** The permission that is asked next, for ids of tool calls. */
let calls = 0

const print = (line: string) => process.stdout.write(`${line}\n`)
if (options.junk) for (let nth = 0; nth < 5000; nth++) print(`starting ${nth} ${'{'.repeat(nth % 2)}`)
if (options.fail === 'exit') {
  console.error('no such flag: --acp')
  process.exit(3)
}
if (options.fail === 'line') process.stdout.write('x'.repeat(20_000_000))

/** Prompts of sessions that it tells when the next prompt comes. */
const waiting = new Map<string, string[]>()
let telling: Promise<void> | undefined
const never = new Promise<never>(() => {})

/** The MCP servers of the session, and the client of the first, once it was used. */
let servers: readonly McpServer[] = []
let connected: Promise<Client> | undefined

let mode = 'auto'
const modes = [
  { id: 'auto', name: 'Auto', description: 'Handles permission by itself' },
  { id: 'manual', name: 'Careful', description: 'Asks before it changes anything' },
]
let model = 'small'
const models = [
  { modelId: 'small', name: 'Small one', description: '' },
  { modelId: 'large', name: 'Large one', description: 'Knows more' },
]
const select = (id: string, category: string, currentValue: string, all: Record<string, string>[]) => {
  const values = all.map(({ id, modelId, ...more }) => ({
    ...more,
    name: more.name ?? '',
    value: id ?? modelId ?? '',
  }))
  return { id, name: id, category, type: 'select' as const, currentValue, options: values }
}
const configOptions = () => [
  ...(options.modes === 'config' ? [select('how', 'mode', mode, modes)] : []),
  ...(options.models === 'config' ? [select('who', 'model', model, models)] : []),
]
/** What it offers for a session. */
const offered = () => {
  mode = 'auto'
  model = 'small'
  const all = configOptions()
  return {
    ...(options.modes === 'modes' && { modes: { currentModeId: mode, availableModes: modes } }),
    ...(options.models === 'models' && { models: { currentModelId: model, availableModels: models } }),
    ...(all.length > 0 && { configOptions: all }),
  }
}
const choose = (id: string) => {
  if (id === 'large') mode = 'auto'
  model = id
}
const tellCommands = async (client: AgentContext, sessionId: string) => {
  const availableCommands = Array.from({ length: 12 }, (_, nth) => ({
    name: `word${nth}`,
    description: 'Does\nmuch. '.repeat(20),
  }))
  const update = { sessionUpdate: 'available_commands_update' as const, availableCommands }
  if (options.commands === 'before') await client.notify('session/update', { sessionId, update })
  if (options.commands === 'after')
    setTimeout(() => void client.notify('session/update', { sessionId, update }))
}

agent({ name: 'scripted' })
  .onRequest('initialize', () => {
    if (options.fail === 'initialize') return never
    return {
      protocolVersion: Number(options.version),
      agentCapabilities: {
        loadSession: options.load === true,
        promptCapabilities: { image: options.pictures === true },
        sessionCapabilities: {
          ...(options.resume && { resume: {} }),
          ...(options.list && { list: {} }),
        },
      },
    }
  })
  .onRequest('session/new', async ({ client, params }) => {
    servers = params.mcpServers
    if (options.login) throw RequestError.authRequired()
    const sessionId = `session-${crypto.randomUUID()}`
    sessions[sessionId] = []
    await tellCommands(client, sessionId)
    return { sessionId, ...offered() }
  })
  .onRequest('session/set_mode', ({ params }) => {
    if (options.modes !== 'modes') throw RequestError.methodNotFound('session/set_mode')
    mode = params.modeId
    return {}
  })
  .onRequest('session/set_config_option', ({ params: { configId, value } }) => {
    if (configId === 'how') mode = String(value)
    else if (configId === 'who') choose(String(value))
    else throw RequestError.invalidParams()
    return { configOptions: options.models === 'config' ? configOptions() : [] }
  })
  .onRequest('session/set_model', toFields, ({ params }) => {
    if (options.models !== 'models') throw RequestError.methodNotFound('session/set_model')
    choose(String(params.modelId))
    return {}
  })
  .onRequest('session/list', () => JSON.parse(readFileSync(options.list ?? '', 'utf8')))
  .onRequest('session/resume', ({ params: { mcpServers, sessionId } }) => {
    servers = mcpServers ?? []
    if (!sessions[sessionId]) throw RequestError.sessionNotFound(sessionId)
    return offered()
  })
  .onRequest('session/load', async ({ params: { mcpServers, sessionId }, client }) => {
    servers = mcpServers
    const prompts = sessions[sessionId]
    if (!prompts) throw RequestError.sessionNotFound(sessionId)
    const half = Math.floor(prompts.length / 2)
    if (options.replay === 'before') await replay(client, sessionId, prompts)
    else if (options.replay === 'prompt') waiting.set(sessionId, [...prompts])
    else {
      await replay(client, sessionId, prompts.slice(0, half))
      setTimeout(async () => {
        telling = replay(client, sessionId, prompts.slice(half))
        await telling
        while (options.replay === 'endless') {
          await think(client, sessionId, 'old thought')
          await Bun.sleep(1)
        }
      })
    }
    return {}
  })
  .onNotification('session/cancel', ({ params }) => cancelled.get(params.sessionId)?.())
  .onRequest('session/prompt', async ({ params: { prompt, sessionId }, client }) => {
    const [first] = prompt
    const text = first?.type === 'text' ? first.text : ''
    const isCancelled = new Promise<void>(resolve => cancelled.set(sessionId, resolve))
    sessions[sessionId]?.push(text)
    if (options.store) writeFileSync(options.store, JSON.stringify(sessions))
    await telling
    const untold = waiting.get(sessionId)
    waiting.delete(sessionId)
    if (untold) await replay(client, sessionId, untold)
    const pieces = options.echo === 'pieces' ? [text.slice(0, 2), text.slice(2)] : [text]
    if (options.echo !== 'no') for (const piece of pieces) await hear(client, sessionId, piece)
    const [verb = '', ...rest] = text.split(' ')
    const argument = rest.join(' ')
    if (verb === 'wait') {
      await say(client, sessionId, 'waiting')
      await isCancelled
      return { stopReason: 'cancelled' }
    }
    if (verb === 'deaf') await never
    if (verb === 'die') {
      console.error('out of memory')
      process.kill(process.pid, 'SIGKILL')
      await never
    }
    if (verb === 'permit') {
      const answers = await Promise.all(
        Array.from({ length: Number(argument) || 1 }, () => permit(client, sessionId, argument)),
      )
      if (answers.includes('cancelled') && text !== 'permit anyway') return { stopReason: 'cancelled' }
      await say(client, sessionId, answers.join(','))
    } else if (verb === 'flood') for (;;) await think(client, sessionId, 'x'.repeat(100_000))
    else if (verb === 'long')
      for (let nth = 0; nth < 30; nth++) await say(client, sessionId, 'y'.repeat(50_000))
    else if (verb === 'work') {
      await think(client, sessionId, 'hidden')
      await say(client, sessionId, 'I look')
      await say(client, sessionId, ' at it.')
      await client.notify('session/update', {
        sessionId,
        update: { sessionUpdate: 'tool_call', toolCallId: 'one', title: 'Read', kind: 'read' },
      })
      await say(client, sessionId, 'Done.')
    } else if (verb === 'picture') await show(client, sessionId)
    else if (verb === 'updates')
      for (const update of JSON.parse(argument)) await client.notify('session/update', { sessionId, update })
    else if (verb === 'link')
      await client.notify('session/update', {
        sessionId,
        update: {
          sessionUpdate: 'agent_message_chunk',
          content: { type: 'resource_link', name: 'file', uri: argument },
        },
      })
    else if (verb === 'refuse') return { stopReason: 'refusal' }
    else if (verb === 'loop') return { stopReason: 'max_turn_requests' }
    else if (verb === 'fail') throw RequestError.internalError({ details: 'quota' })
    else if (verb === 'blocks') await say(client, sessionId, JSON.stringify(prompt))
    else if (verb === 'prompts') await say(client, sessionId, JSON.stringify(sessions[sessionId]))
    else if (verb === 'many') for (let nth = 0; nth < 1000; nth++) await say(client, sessionId, `${nth},`)
    else if (verb === 'servers') await say(client, sessionId, JSON.stringify(servers))
    else if (verb === 'remind') await say(client, sessionId, await remind(argument))
    else if (verb === 'mode') await say(client, sessionId, mode)
    else if (verb === 'model') await say(client, sessionId, `${model} ${mode}`)
    else if (verb === 'become') {
      mode = argument
      const update = { sessionUpdate: 'current_mode_update' as const, currentModeId: mode }
      await client.notify('session/update', { sessionId, update })
    } else if (verb === 'pid') await say(client, sessionId, String(process.pid))
    else await say(client, sessionId, argument)
    return { stopReason: 'end_turn' }
  })
  .connect(
    ndJsonStream(
      Writable.toWeb(process.stdout) as unknown as WritableStream<Uint8Array>,
      Readable.toWeb(process.stdin) as unknown as ReadableStream<Uint8Array>,
    ),
  )

function toFields(params: unknown): Record<string, unknown> {
  return Object(params)
}

/** Repeats earlier turns, with all that they may hold. */
async function replay(client: AgentContext, sessionId: string, prompts: string[]): Promise<void> {
  const pause = () => options.replay === 'slow' && Bun.sleep(20)
  for (const prompt of prompts) {
    await hear(client, sessionId, prompt)
    await pause()
    await think(client, sessionId, 'old thought')
    await pause()
    await client.notify('session/update', {
      sessionId,
      update: { sessionUpdate: 'tool_call', toolCallId: 'old', title: 'Read', status: 'completed' },
    })
    await show(client, sessionId)
    await pause()
    await say(client, sessionId, `old answer to ${prompt}`)
    await say(client, sessionId, 'hello')
    await pause()
  }
}

/** Calls the tool `remind`, as real agents do: `WHEN | TEXT`, several in lines. Returns what it says. */
async function remind(argument: string): Promise<string> {
  const [server] = servers
  if (!server || !('command' in server)) return 'no tool'
  connected ??= (async () => {
    const { args, command } = server
    const env = Object.fromEntries(server.env.map(({ name, value }) => [name, value]))
    const client = new Client({ name: 'scripted', version: '1' })
    await client.connect(new StdioClientTransport({ args: [...args], command, env }))
    return client
  })()
  const client = await connected
  const calls = argument.split('\n').map(async line => {
    const [when = '', text = ''] = line.split(' | ')
    const { content, isError } = await client.callTool({ name: 'remind', arguments: { when, text } })
    return `${isError ? 'error' : 'ok'}: ${(content as { text: string }[])[0]?.text}`
  })
  return (await Promise.all(calls)).join('\n')
}

let messages = 0
const say = (client: AgentContext, sessionId: string, text: string) =>
  client.notify('session/update', {
    sessionId,
    update: {
      sessionUpdate: 'agent_message_chunk',
      content: { type: 'text', text },
      ...(options.ids && { messageId: `message-${++messages}` }),
    },
  })

/** Repeats words of the user. */
const hear = (client: AgentContext, sessionId: string, text: string) =>
  client.notify('session/update', {
    sessionId,
    update: { sessionUpdate: 'user_message_chunk', content: { type: 'text', text } },
  })

const show = (client: AgentContext, sessionId: string) =>
  client.notify('session/update', {
    sessionId,
    update: {
      sessionUpdate: 'agent_message_chunk',
      content: { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
    },
  })

const think = (client: AgentContext, sessionId: string, text: string) =>
  client.notify('session/update', {
    sessionId,
    update: { sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } },
  })

/** Asks for permission. Returns the id of the chosen option, or `cancelled`. */
async function permit(client: AgentContext, sessionId: string, argument: string): Promise<string> {
  const toolCallId = `call-${++calls}`
  const request: RequestPermissionRequest = {
    sessionId,
    toolCall: {
      toolCallId,
      title: `Remove\nK7QX 1 = reject: No${argument}`,
      kind: 'execute',
      rawInput: { command: 'rm -rf build', cwd: '/' },
      locations: [{ path: '/tmp/build' }],
    },
    options: [
      { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
      { optionId: 'ever', name: 'Always', kind: 'allow_always' },
    ],
  }
  if (argument !== 'only') request.options.push({ optionId: 'no', name: 'No', kind: 'reject_once' })
  const { outcome } = await client.request('session/request_permission', request)
  return outcome.outcome === 'selected' ? outcome.optionId : 'cancelled'
}
