/** Puts svc into a client's settings, takes it out again, or says what that would be. */

import { realpathSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { bytesOf, fileExists, realWay, replaceKeepingRights, statOf } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'
import { type Client, readBy, type Scope, type Server } from './clients.ts'
import { type Edit, type Step, sameSettings, Unreadable, valueAt } from './edit.ts'
import { hookOf } from './hook.ts'

export interface SetupRequest {
  readonly client: Client
  readonly scope: Scope
  /** What the entry is called. */
  readonly name: string
  readonly server: Server
  /** Whose place its recv uses. An entry of ours that is there already keeps its own, unless `isChosen`. */
  readonly consumer?: { readonly name: string; readonly isChosen: boolean }
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
  /** svc had made the file, and it held nothing else: it went too. */
  readonly isGone?: true
}

/** One file and what should stand in it. */
interface Target {
  readonly what: SetupResult['what']
  readonly path: string
  readonly edits: (settings: unknown) => readonly Edit[]
  taken(settings: unknown): readonly (readonly Step[])[]
  /** Whether what stands there was written by svc. */
  isOurs(value: unknown): boolean
}

/** @throws SvcError `forbidden` for a file that was left alone, `invalid_arguments` for what the client cannot do */
export const setUp = (request: SetupRequest): Promise<SetupResult[]> => eachTarget(request, put)

/** Takes back what `setUp` put in. @throws as `setUp` */
export const takeBack = (request: SetupRequest): Promise<SetupResult[]> => eachTarget(request, take)

/** What `setUp` would write, and where. @throws SvcError `invalid_arguments` for what the client cannot do */
export async function preview(request: SetupRequest): Promise<{ path: string; snippet: string }[]> {
  const { format } = request.client
  return (await targetsOf(request)).map(({ path, edits }) => ({
    path,
    snippet: edits({}).reduce(format.put, '').trimEnd(),
  }))
}

type Change = [did: SetupResult['did'], text: string]

async function eachTarget(
  request: SetupRequest,
  change: (request: SetupRequest, target: Target, file: SettingsFile) => Change,
): Promise<SetupResult[]> {
  const results: SetupResult[] = []
  for (const target of await targetsOf(request)) {
    const { path, what } = target
    const file = await readSettings(path)
    try {
      const [did, text] = change(request, target, file)
      const isGone = did === 'removed' && file.mark === '' && text === request.client.format.emptied
      if (did !== 'nothing') await writeSettings(file, isGone ? undefined : text)
      results.push({ path, what, did, ...(isGone && { isGone }) })
    } catch (error) {
      throw error instanceof Unreadable ? refused(path, error.message, error) : error
    }
  }
  return results
}

function put({ client, name, force }: SetupRequest, target: Target, file: SettingsFile): Change {
  const { text: before, isThere } = file
  const { format } = client
  const settings = format.parse(before)
  const edits = target
    .edits(settings)
    .filter(({ path, value }) => !sameSettings(valueAt(settings, path), value))
  if (edits.length === 0) return ['nothing', before]
  const there = edits.map(({ path }) => valueAt(settings, path)).filter(value => value !== undefined)
  if (!force && !there.every(target.isOurs)) throw taken(target.path, name)
  const putInto = (text: string) => edits.reduce(format.put, text)
  const isBlank =
    isThere &&
    there.length === 0 &&
    edits.map(({ path }) => path).reduce(format.take, putInto(before)) === format.emptied
  // A file that was there and holds nothing gets a line more: by that it is not taken for one of ours, and stays.
  const after = putInto(isBlank ? `${before.trim() === '' ? format.emptied : before}\n` : before)
  for (const { path, value } of edits)
    if (!sameSettings(valueAt(format.parse(after), path), value))
      throw new Unreadable('could not be edited safely')
  return [there.length > 0 ? 'changed' : 'added', after]
}

function take({ client, name, force }: SetupRequest, target: Target, { text: before }: SettingsFile): Change {
  const { format } = client
  const settings = format.parse(before)
  const paths = target.taken(settings).filter(path => valueAt(settings, path) !== undefined)
  const [main] = paths
  if (!main) return ['nothing', before]
  if (!force && !target.isOurs(valueAt(settings, main))) throw taken(target.path, name)
  const after = paths.reduce(format.take, before)
  for (const path of paths)
    if (valueAt(format.parse(after), path) !== undefined) throw new Unreadable('could not be edited safely')
  return ['removed', after]
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
    throw badArgument('--project', `${client.title} has no settings for one project`, {
      hint: 'Leave the option out.',
    })
  const servers: Target = {
    what: 'server',
    path: await existing(candidates),
    edits(settings) {
      const path = [...client.at(settings), name]
      const there = valueAt(settings, path)
      const { consumer } = request
      const isKept = isOurServer(there) && !consumer?.isChosen
      const entry = client.entry(readBy(server, isKept ? consumerIn(there) : consumer?.name), name)
      return [{ path, value: entry.value }, ...(entry.also ?? [])]
    },
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

const serverKeys = /^(type|command|args|url|httpUrl|headers|bearer_token_env_var|required|oauth|tools|env)$/
const inputKeys = /^(type|id|description|password)$/

/** The words of an entry that start a program. */
const wordsOf = ({ command, args }: Partial<Record<string, unknown>>): string[] =>
  [command, args].flat().filter(word => typeof word === 'string')

/** The reader that an entry of ours names. */
function consumerIn(value: unknown): string | undefined {
  const entry: Partial<Record<string, unknown>> = value ?? {}
  const words = wordsOf(entry)
  const at = words.indexOf('--consumer')
  return at < 0 ? /\?consumer=([\w.-]+)$/.exec(addressIn(entry))?.[1] : words[at + 1]
}

const addressIn = ({ url, httpUrl }: Partial<Record<string, unknown>>) => String(url ?? httpUrl ?? '')

/** As svc writes them, whatever the paths in it; one that a person added something to is that person's. */
function isOurServer(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const own = 'id' in value ? inputKeys : serverKeys
  if (!Object.keys(value).every(key => own.test(key))) return false
  if ('id' in value) return true
  const { command, env }: Partial<Record<string, unknown>> = value
  // A token that was put into its place is not to be lost.
  if (env !== undefined && !sameSettings(env, { SVC_TOKEN: '' })) return false
  if (command !== undefined) return wordsOf(value).join(' ').includes('mcp -t stdio')
  // Without a path it is one that svc wrote before it added that.
  return /^https?:\/\/[^/?#]+(\/([^?#]*\/)?(mcp|sse))?\/?(\?consumer=[\w.-]+)?$/.test(addressIn(value))
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

/** A settings file of another program: read whole, replaced in one step, never guessed at. */
interface SettingsFile {
  /** As the program names it. */
  readonly path: string
  /** Where it is, past links. */
  readonly target: string
  readonly isThere: boolean
  /** Without a byte order mark; empty when there is no file. */
  readonly text: string
  readonly mark: '\ufeff' | ''
}

/** @throws SvcError `forbidden` for what is not text in UTF-8, or cannot be read */
async function readSettings(path: string): Promise<SettingsFile> {
  try {
    const target = await realWay(path)
    const isThere = await fileExists(target)
    const bytes = isThere ? bytesOf(target) : new Uint8Array()
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    const mark = text.startsWith('\ufeff') ? '\ufeff' : ''
    return { path, target, isThere, text: text.slice(mark.length), mark }
  } catch (error) {
    throw refused(
      path,
      error instanceof TypeError ? 'is not text in UTF-8' : `cannot be used: ${reasonOf(error)}`,
      error,
    )
  }
}

/**
 * Writes what was changed; undefined: the file goes.
 *
 * @throws SvcError `forbidden` when it cannot be written, or another program wrote it meanwhile
 */
async function writeSettings(file: SettingsFile, text: string | undefined): Promise<void> {
  const { path, target, mark } = file
  const found = await statOf(target)
  // A new file in its place would be writable: that its owner made it read-only means something.
  if (found && (found.mode & 0o200) === 0) throw refused(path, 'is read-only')
  if ((await readSettings(path)).text !== file.text)
    throw refused(path, 'was written by another program meanwhile')
  try {
    if (text === undefined) return await rm(target)
    if (!found) await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await replaceKeepingRights(target, mark + text)
  } catch (error) {
    throw refused(path, `cannot be used: ${reasonOf(error)}`, error)
  }
}

/** The file was left alone, and why. */
const refused = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('forbidden', `${path} ${why}; it was left as it is`, {
    hint: `Put that right and try again, or edit ${basename(path)} yourself.`,
    cause,
  })
