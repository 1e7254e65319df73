/**
 * The `PermissionRequest` hook of Claude Code ("Hooks reference"): reads what it gets, shows it to a person on WeChat, and
 * formats the decision. Text of the agent stands on lines of its own behind a mark, so that it cannot look like a choice.
 */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Environment } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { attempt } from '../platform/fields.ts'
import { toOneLine } from './question-text.ts'
import { withoutSecrets } from './redact.ts'

const HookRequest = Type.Object({
  hook_event_name: Type.Literal('PermissionRequest'),
  tool_name: Type.String(),
  tool_input: Type.Record(Type.String(), Type.Unknown()),
  cwd: Type.String(),
  transcript_path: Type.Optional(Type.String()),
  /** Absent unless a subagent asks, which has a transcript of its own. */
  agent_id: Type.Optional(Type.String()),
})
export type HookRequest = Static<typeof HookRequest>

/** Tools whose prompt is more than a yes or a no. */
const onScreen: ReadonlySet<string> = new Set(['AskUserQuestion', 'ExitPlanMode'])
/** The field of a tool that says most, and is shown first. */
const mainFields = ['command', 'file_path', 'notebook_path', 'url']
const longest = { folder: 200, tool: 100, main: 700, rest: 300 }
const isSecretName = /key|token|secret|pass|cred/i
/** How much of the end of a transcript is read, in bytes. */
const tailBytes = 1_000_000

/**
 * @returns undefined for what a person on WeChat cannot decide
 * @throws SvcError `invalid_arguments` if it is not JSON
 */
export function readHookRequest(text: string): HookRequest | undefined {
  const value = attempt<unknown>(() => JSON.parse(text))
  if (value === undefined)
    throw badArgument('stdin', 'expected the JSON that Claude Code writes to a PermissionRequest hook')
  return Value.Check(HookRequest, value) && !onScreen.has(value.tool_name) ? value : undefined
}

/** Formats the question. It says so if anything is cut or hidden. */
export function formatPermission({ cwd, tool_input, tool_name }: HookRequest, env: Environment): string {
  const main = mainFields.find(name => typeof tool_input[name] === 'string')
  // The description of a command is what the model says about it.
  const isLeftOut = (name: string) => name === main || (tool_name === 'Bash' && name === 'description')
  const rest = Object.entries(tool_input).filter(([name]) => !isLeftOut(name))
  const secrets = Object.fromEntries(Object.entries(env).filter(([name]) => isSecretName.test(name)))
  let isWhole = true
  const clean = (said: string) => {
    const safe = withoutSecrets(said, secrets)
    isWhole &&= safe === said
    return toOneLine(safe.replace(/\r?\n/g, ' ⏎ '), Number.POSITIVE_INFINITY)
  }
  // Both ends of a text matter. What is far from them is not searched for secrets, which would take minutes.
  const show = (said: string, most: number) => {
    const isNear = said.length <= 4 * most
    const head = clean(isNear ? said : said.slice(0, 2 * most))
    if (isNear && head.length <= most) return head
    isWhole = false
    const tail = isNear ? head : clean(said.slice(-2 * most))
    return `${head.slice(0, most / 2)} […] ${tail.slice(-most / 2)}`.toWellFormed()
  }
  const lines = [
    ...(main === undefined ? [] : [`> ${show(String(tool_input[main]), longest.main)}`]),
    ...(rest.length === 0 ? [] : [`> ${show(JSON.stringify(Object.fromEntries(rest)), longest.rest)}`]),
  ]
  return [
    'Claude Code: allow this once? 允许这一次？',
    `> ${show(tool_name, longest.tool)} · ${show(cwd, longest.folder)}`,
    ...lines,
    ...(isWhole ? [] : ['⚠ Not all of it is shown here. 这里没有显示全部内容。']),
  ].join('\n')
}

/** Formats a decision for this one time. */
export const formatDecision = (isAllowed: boolean, by: string): string =>
  JSON.stringify({
    hookSpecificOutput: {
      hookEventName: 'PermissionRequest',
      decision: isAllowed
        ? { behavior: 'allow' }
        : { behavior: 'deny', message: `${by} said no on WeChat. Do not try another way; ask your user.` },
    },
  })

/**
 * Returns a function that tells whether the tool has run since: then a person answered on the screen. Claude Code tells its
 * hook of a no there, by SIGTERM, but not of a yes. Without a readable transcript it is always false.
 */
export async function followTranscript({
  agent_id,
  tool_input,
  tool_name,
  transcript_path = '',
}: HookRequest): Promise<() => Promise<boolean>> {
  const own = agent_id === undefined ? '.jsonl' : `/subagents/agent-${agent_id}.jsonl`
  const path = transcript_path.replace(/\.jsonl$/, own)
  const size = await stat(path).then(
    found => found.size,
    () => 0,
  )
  const count = async () => {
    const text = await readFrom(path, Math.max(0, size - tailBytes)).catch(() => '')
    const parts = text.split('\n').flatMap(partsOf)
    const isSame = (input: object = {}) =>
      Object.entries(input).every(
        ([name, value]) => JSON.stringify(value) === JSON.stringify(tool_input[name]),
      )
    const ids = new Set(
      parts.flatMap(({ id, input, name }) => (name === tool_name && isSame(input) ? [id] : [])),
    )
    return parts.filter(({ tool_use_id }) => tool_use_id !== undefined && ids.has(tool_use_id)).length
  }
  const before = await count()
  return async () => (await count()) > before
}

/** A call of a tool (`id`, `name`, `input`) or its result (`tool_use_id`). */
interface TranscriptPart {
  readonly id?: string
  readonly name?: string
  readonly input?: object
  readonly tool_use_id?: string
}

/** Returns the parts of a line of a transcript; none for one that is cut or has another form. */
function partsOf(line: string): TranscriptPart[] {
  if (!line.includes('"tool_')) return []
  const content = attempt<unknown>(() => JSON.parse(line).message?.content)
  return Array.isArray(content) ? content : []
}

async function readFrom(path: string, start: number): Promise<string> {
  const blocks: Buffer[] = []
  for await (const block of createReadStream(path, { start })) blocks.push(block)
  return Buffer.concat(blocks).toString()
}
