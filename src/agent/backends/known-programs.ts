/**
 * What svc knows of some agent programs: how they print events, how they continue a conversation, how they take
 * pictures. Their permission modes stay as the command says.
 */
import { basename } from 'node:path'
import { type EarlyEnd, earlyEndOf, type PromptFile } from '../backend.ts'

/** What a program has printed so far. */
export interface TurnProgress {
  /** The program's id of the conversation; absent until it has begun to work on the prompt. */
  session?: string | undefined
  text: string
  /** Same as `TurnResult.early`. */
  early?: EarlyEnd | undefined
  /** The reason of a failure. */
  error?: string
}

export interface KnownProgram {
  /** Its names, and its packages. */
  readonly program: RegExp
  /** Words of which the command must have one. */
  readonly needs: readonly string[]
  /** Words with which svc adds nothing to the command. */
  readonly leaves: readonly string[]
  /** The options for the format in which it prints events. With another format, svc reads the output as plain text. */
  readonly format: readonly string[]
  /** Returns the arguments to add to the command: options that it has already are left out. The prompt follows on stdin. */
  argumentsFor(
    session: string | undefined,
    images: readonly string[],
    command: readonly string[],
  ): readonly string[]
  /** Takes one event: a line of JSON. */
  take(event: Event, progress: TurnProgress): void
}

/** Fields of the events of all programs. Each may be absent, or of another type. */
interface Event {
  readonly type?: unknown
  readonly subtype?: unknown
  readonly session_id?: unknown
  readonly thread_id?: unknown
  readonly sessionID?: unknown
  readonly result?: unknown
  readonly is_error?: unknown
  readonly message?: unknown
  readonly item?: { readonly type?: unknown; readonly text?: unknown }
  readonly part?: { readonly text?: unknown }
  readonly error?: { readonly message?: unknown; readonly data?: { readonly message?: unknown } }
}

/** Returns the id of a session if it is a plain word, which may become an argument. */
export const toSessionId = (id: unknown): string | undefined =>
  typeof id === 'string' && /^\w[\w-]{0,99}$/.test(id) ? id : undefined

function begin(progress: TurnProgress, id: unknown): void {
  progress.session = toSessionId(id) ?? progress.session
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Returns the options that a command does not have. Codex refuses one that it is given twice. */
const unlessGiven = (command: readonly string[], ...options: readonly (readonly string[])[]): string[] =>
  options.filter(option => !isGiven(command, option)).flat()

function isGiven(command: readonly string[], option: readonly string[]): boolean {
  const words = command.flatMap(word => (word.startsWith('--') ? word.split(/=(.*)/s).slice(0, 2) : [word]))
  const at = words.indexOf(option[0] ?? '')
  return at >= 0 && option.every((word, nth) => words[at + nth] === word)
}

/** Claude Code: `claude -p`. It reads pictures by their paths in the prompt. */
const claude: KnownProgram = {
  program: /^(claude|@anthropic-ai\/claude-code)$/,
  needs: ['-p', '--print'],
  leaves: ['-r', '--resume', '-c', '--continue', '--session-id'],
  // With `json` an unknown session and a crash look alike: both print nothing.
  format: ['--output-format', 'stream-json'],
  argumentsFor: (session, _images, command) => [
    ...unlessGiven(command, claude.format, ['--verbose']),
    ...(session === undefined ? [] : ['--resume', session]),
  ],
  take({ is_error, message, result, session_id, subtype, type }, progress) {
    if (type === 'system' && subtype === 'init') begin(progress, session_id)
    if (type === 'assistant') progress.early = earlyEndOf(Object(message).stop_reason)
    if (type !== 'result') return
    progress.early = earlyEndOf(subtype) ?? progress.early
    progress.text = textOf(result)
    if (is_error === true && earlyEndOf(subtype) === undefined)
      progress.error = textOf(result) || textOf(subtype)
  },
}

/** Codex: `codex exec`. */
const codex: KnownProgram = {
  program: /^(codex|@openai\/codex)$/,
  needs: ['exec', 'e'],
  leaves: ['-', 'resume', 'fork', 'review'],
  format: ['--json'],
  argumentsFor: (session, images, command) => [
    // The folder of a conversation is no repository.
    ...unlessGiven(command, ['--skip-git-repo-check']),
    ...(session === undefined ? [] : ['resume']),
    ...images.flatMap(path => ['--image', path]),
    ...unlessGiven(command, codex.format),
    ...(session === undefined ? [] : [session]),
    '-',
  ],
  take({ error, item, message, thread_id, type }, progress) {
    if (type === 'thread.started') begin(progress, thread_id)
    if (type === 'item.completed' && item?.type === 'agent_message') progress.text = textOf(item.text)
    if (type === 'error') progress.error = textOf(message)
    if (type === 'turn.failed') progress.error = textOf(error?.message)
    if (type === 'turn.completed') delete progress.error
  },
}

/** OpenCode: `opencode run`. */
const openCode: KnownProgram = {
  program: /^(opencode|opencode-ai)$/,
  needs: ['run'],
  leaves: ['-s', '--session', '-c', '--continue', '-i', '--interactive', '--command'],
  format: ['--format', 'json'],
  argumentsFor: (session, images, command) => [
    ...unlessGiven(command, openCode.format),
    ...(session === undefined ? [] : ['--session', session]),
    ...images.map(path => `--file=${path}`),
  ],
  take({ error, part, sessionID, type }, progress) {
    begin(progress, sessionID)
    // The answer is the text of the last step; the steps before it call tools.
    if (type === 'step_start') progress.text = ''
    if (type === 'text') progress.text = [progress.text, textOf(part?.text)].filter(Boolean).join('\n\n')
    if (type === 'error') progress.error = textOf(error?.data?.message) || textOf(error?.message) || 'error'
  },
}

/** Returns where the program of a command stands: behind what fetches packages. */
const packageAt = ([launcher = '', ...words]: readonly string[]): number =>
  /^(npx|bunx)$/.test(nameOf(launcher)) ? words.findIndex(word => word[0] !== '-') + 1 : 0

/**
 * Returns what svc knows of the program of a command, if it may use it: the command neither places the prompt nor
 * chooses a conversation or a format itself.
 */
export function findKnownProgram(command: readonly string[]): KnownProgram | undefined {
  const at = packageAt(command)
  const name = nameOf(command[at] ?? '')
  const args = command.slice(at + 1).map(word => word.replace(/=.*/s, ''))
  const found = [claude, codex, openCode].find(({ program }) => program.test(name))
  const has = (words: readonly string[]) => words.some(word => args.includes(word))
  if (!found || !has(found.needs) || has([...found.leaves, placeOfPrompt])) return undefined
  const [format = ''] = found.format
  return has([format]) && !isGiven(command, found.format) ? undefined : found
}

/** The variables with which programs reach their models. */
const modelVariables: readonly (readonly [program: RegExp, names: RegExp])[] = [
  [/claude/, /^(?:ANTHROPIC|CLAUDE)_/],
  [/codex/, /^(?:OPENAI|CODEX)_/],
  [/gemini/, /^(?:GEMINI_\w+|GOOGLE_API_KEY)$/],
  [/qwen/, /^(?:OPENAI|QWEN|DASHSCOPE)_/],
  [/opencode/, /^OPENCODE_/],
]

/** Whether a variable is of the model of a command's program, if svc knows that. */
export const isOfModel = (variable: string, command: readonly string[]): boolean =>
  modelVariables.some(
    ([program, names]) => names.test(variable) && program.test(nameOf(command[packageAt(command)] ?? '')),
  )

/** Stands in an argument for the prompt. */
export const placeOfPrompt = '{prompt}'

/** Returns the name of a program or package, without folder, ending and version. */
const nameOf = (word: string): string =>
  (word.startsWith('@') ? word : basename(word.replaceAll('\\', '/'))).replace(/(?<=.)@.*|\.(exe|cmd)$/, '')

/** Returns the paths of pictures for a preset, without those with a comma: the program would take one for two. */
export const imagesOf = (files: readonly PromptFile[]): string[] =>
  files.flatMap(({ kind, path }) => (kind === 'image' && !path.includes(',') ? [path] : []))
