/** Puts svc into a client's settings, takes it out again, or says what that would be. */

import { realpathSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { SvcError } from '../model/error.ts'
import { fileExists } from '../platform/files.ts'
import type { Client, Scope, Server } from './clients.ts'
import { type Edit, type Step, sameSettings, Unreadable, valueAt } from './edit.ts'
import { hookOf } from './hook.ts'
import { readSettings, refused, writeSettings } from './settings-file.ts'

export interface SetupRequest {
  readonly client: Client
  readonly scope: Scope
  /** What the entry is called. */
  readonly name: string
  readonly server: Server
  /** Also, or when taking back only if it is there: the prompt hook. Its command. */
  readonly hook?: readonly string[]
  /** Replaces, or takes away, an entry of that name that svc did not write. */
  readonly force: boolean
  readonly folders: UserFolders
}

/** What became of one file. */
export interface SetupResult {
  readonly path: string
  readonly what: 'server' | 'hook'
  readonly did: 'added' | 'changed' | 'nothing' | 'removed'
}

/** One file and what should stand in it. */
interface Target {
  readonly what: SetupResult['what']
  readonly path: string
  edits(settings: unknown): readonly Edit[]
  taken(settings: unknown): readonly (readonly Step[])[]
  /** Whether what stands there was written by svc. */
  isOurs(value: unknown): boolean
}

/** Someone else may write between our reading and our writing: then once more. */
const tries = 5

/** @throws SvcError `forbidden` for a file that was left alone, `invalid_arguments` for what the client cannot do */
export async function setUp(request: SetupRequest): Promise<SetupResult[]> {
  return eachTarget(request, true)
}

/** Takes back what `setUp` put in. @throws as `setUp` */
export async function takeBack(request: SetupRequest): Promise<SetupResult[]> {
  return eachTarget(request, false)
}

/** What `setUp` would write, and where. @throws SvcError `invalid_arguments` for what the client cannot do */
export async function preview(request: SetupRequest): Promise<{ path: string; snippet: string }[]> {
  const { client } = request
  return (await targetsOf(request)).map(target => ({
    path: target.path,
    snippet: client.format.snippet(target.edits(undefined)),
  }))
}

async function eachTarget(request: SetupRequest, isWanted: boolean): Promise<SetupResult[]> {
  const results: SetupResult[] = []
  for (const target of await targetsOf(request)) results.push(await changed(request, target, isWanted))
  return results
}

async function changed(request: SetupRequest, target: Target, isWanted: boolean): Promise<SetupResult> {
  const { path, what } = target
  for (let left = tries; left > 0; left--) {
    const file = await readSettings(path)
    try {
      const [did, text] = isWanted ? put(request, target, file.text) : take(request, target, file.text)
      if (did === 'nothing' || (await writeSettings(file, text))) return { path, what, did }
    } catch (error) {
      if (error instanceof Unreadable) throw refused(path, error.message, error)
      throw error
    }
  }
  throw refused(path, 'is written by another program all the time')
}

type Change = [did: SetupResult['did'], text: string | undefined]

function put({ client, name, force }: SetupRequest, target: Target, before: string | undefined): Change {
  const { format } = client
  const settings = before === undefined || before.trim() === '' ? undefined : format.parse(before)
  const edits = target
    .edits(settings)
    .filter(({ path, value }) => !sameSettings(valueAt(settings, path), value))
  const [main] = edits
  if (!main) return ['nothing', before]
  const there = edits.some(({ path }) => valueAt(settings, path) !== undefined)
  const foreign = edits.find(({ path }) => {
    const value = valueAt(settings, path)
    return value !== undefined && !target.isOurs(value)
  })
  if (foreign && !force) throw taken(target.path, name)
  const after = edits.reduce((text, edit) => format.put(text, edit), before) ?? ''
  for (const { path, value } of edits)
    if (!sameSettings(valueAt(format.parse(after), path), value))
      throw new Unreadable('could not be edited safely')
  return [there ? 'changed' : 'added', after]
}

function take({ client, name, force }: SetupRequest, target: Target, before: string | undefined): Change {
  const { format } = client
  if (before === undefined || before.trim() === '') return ['nothing', before]
  const settings = format.parse(before)
  const paths = target.taken(settings).filter(path => valueAt(settings, path) !== undefined)
  const [main] = paths
  if (!main) return ['nothing', before]
  if (!force && !target.isOurs(valueAt(settings, main))) throw taken(target.path, name)
  let text: string | undefined = before
  for (const path of paths) if (text !== undefined) text = format.take(text, path)
  for (const path of paths)
    if (text !== undefined && text.trim() !== '' && valueAt(format.parse(text), path) !== undefined)
      throw new Unreadable('could not be edited safely')
  return ['removed', text]
}

const taken = (path: string, name: string) =>
  new SvcError(
    'forbidden',
    `${path} has an entry "${name}" that svc did not write, or that was changed since`,
    {
      hint: 'Choose another name with --name, or add --force to replace or remove it.',
    },
  )

async function targetsOf(request: SetupRequest): Promise<Target[]> {
  const { client, scope, name, server, folders, hook } = request
  const candidates = client.files[scope]?.(folders)
  if (!candidates)
    throw new SvcError('invalid_arguments', `--project: ${client.title} has no settings for one project`, {
      hint: 'Leave the option out.',
    })
  const entry = client.entry(server, name)
  if (!entry)
    throw new SvcError('invalid_arguments', `--url: ${client.title} starts its servers itself`, {
      hint: 'Leave the option out, or add the address under Connectors in its settings.',
    })
  const servers: Target = {
    what: 'server',
    path: await existing(candidates),
    edits: settings => [{ path: [...client.at(settings), name], value: entry.value }, ...(entry.also ?? [])],
    taken: settings => [[...client.at(settings), name], ...(client.alsoTaken?.(name) ?? [])],
    isOurs: isOurServer,
  }
  return hook ? [servers, hookOf(request, hook)] : [servers]
}

/** The first that exists, else the first. */
async function existing(paths: readonly string[]): Promise<string> {
  // What cannot even be looked at is there, and is refused when it is read.
  for (const path of paths) if (await fileExists(path).catch(() => true)) return path
  return paths[0] ?? ''
}

const ownKeys = new Set([
  'type',
  'command',
  'args',
  'url',
  'httpUrl',
  'headers',
  'bearer_token_env_var',
  'oauth',
])
const inputKeys = new Set(['type', 'id', 'description', 'password'])

/** As svc writes them, whatever the paths in it; one that a person added something to is his. */
function isOurServer(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const keys = Object.keys(value)
  if ('id' in value) return keys.every(key => inputKeys.has(key))
  if (!keys.every(key => ownKeys.has(key))) return false
  const { command, args, url, httpUrl } = value as Record<string, unknown>
  const words = Array.isArray(command) ? command : Array.isArray(args) ? args : []
  if (command !== undefined) return words.join(' ').includes('mcp -t stdio')
  return /\/mcp$/.test(String(url ?? httpUrl ?? ''))
}

/**
 * The command under the name by which a shell finds it, if that is the same program: a package manager moves the file
 * behind the name with every version.
 */
export function lastingCommand(command: readonly string[], path: readonly string[]): string[] {
  const [program = '', ...rest] = command
  const real = realOf(program)
  const found = path
    .map(dir => join(dir, basename(program)))
    .find(file => real !== undefined && realOf(file) === real)
  return [found ?? program, ...rest]
}

function realOf(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}
