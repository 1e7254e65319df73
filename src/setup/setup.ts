/** Adds svc to a client's settings, removes it, or previews the change. */

import { realpathSync } from 'node:fs'
import { rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { attempt } from '../platform/fields.ts'
import { fileExists } from '../platform/files.ts'
import { type Client, type McpTarget, type SettingsScope, withConsumer } from './clients.ts'
import {
  type Edit,
  isSameSettings,
  type SettingsFormat,
  type Step,
  UnreadableSettingsError,
  valueAt,
} from './edit.ts'
import { createHookTarget } from './hook.ts'
import { readSettings, type SettingsFile, unchangedError, writeSettings } from './settings-file.ts'
import { createWakeTargets } from './wake.ts'

export interface SetupRequest {
  readonly client: Client
  readonly scope: SettingsScope
  /** Name of the entry. */
  readonly name: string
  readonly server: McpTarget
  /** Consumer of the entry. An existing entry of svc keeps its own consumer, unless `isChosen` is true. */
  readonly consumer?: { readonly name: string; readonly isChosen: boolean }
  /** Command of the prompt hook. With it the hook is added too, or removed if it exists. */
  readonly hook?: readonly string[]
  /** Command of the permission hook, likewise. */
  readonly ask?: readonly string[]
  /** Command that prints a line for each new message. With it the files that wake the client are added or removed. */
  readonly wake?: readonly string[]
  /** True to replace or remove an entry of that name that svc did not write. */
  readonly force: boolean
  readonly folders: UserFolders
}

/** The change of one file. */
export interface SetupResult {
  readonly path: string
  readonly what: 'server' | 'hook' | 'ask' | 'wake'
  readonly did: 'added' | 'changed' | 'nothing' | 'removed'
  /** True if the file was deleted: svc had created it, and it had no other content. */
  readonly isGone?: true
}

/** A file and its planned edits. */
interface Target {
  readonly what: SetupResult['what']
  readonly path: string
  /** Default: that of the client's settings. */
  readonly format?: SettingsFormat
  /** Folders that svc made for the file, to remove once they are empty. */
  readonly ownFolders?: readonly string[]
  readonly edits: (settings: unknown) => readonly Edit[]
  pathsToRemove(settings: unknown): readonly (readonly Step[])[]
  /** Returns true if svc wrote the value. */
  isOurs(value: unknown): boolean
}

/**
 * Adds svc to the client's settings.
 *
 * @throws SvcError `forbidden` for a file that was left unchanged, `invalid_arguments` for an option that
 * the client does not support
 */
export const setUp = (request: SetupRequest): Promise<SetupResult[]> => eachTarget(request, addTo)

/**
 * Removes what `setUp` added.
 *
 * @throws as `setUp`
 */
export const takeBack = (request: SetupRequest): Promise<SetupResult[]> => eachTarget(request, removeFrom)

/**
 * Returns what `setUp` would write, by file.
 *
 * @throws SvcError `invalid_arguments` for an option that the client does not support
 */
export async function preview(request: SetupRequest): Promise<{ path: string; snippet: string }[]> {
  return (await listTargets(request)).map(({ path, edits, format = request.client.format }) => ({
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
  for (const target of await listTargets(request)) {
    const { format = request.client.format, ownFolders = [], path, what } = target
    const file = await readSettings(path)
    try {
      const [did, text] = change(request, target, file)
      const isGone = did === 'removed' && file.mark === '' && text === format.emptyText
      if (did !== 'nothing') await writeSettings(file, isGone ? undefined : text)
      if (isGone) for (const folder of ownFolders) await rmdir(folder).catch(() => {})
      results.push({ path, what, did, ...(isGone && { isGone }) })
    } catch (error) {
      throw error instanceof UnreadableSettingsError ? unchangedError(path, error.message, error) : error
    }
  }
  return results
}

function addTo({ client, name, force }: SetupRequest, target: Target, file: SettingsFile): Change {
  const { text: before, isThere } = file
  const { format = client.format } = target
  const settings = format.parse(before)
  const edits = target
    .edits(settings)
    .filter(({ path, value }) => !isSameSettings(valueAt(settings, path), value))
  if (edits.length === 0) return ['nothing', before]
  const there = edits.map(({ path }) => valueAt(settings, path)).filter(value => value !== undefined)
  if (!force && !there.every(target.isOurs)) throw foreignEntryError(target.path, name)
  const putInto = (text: string) => edits.reduce(format.put, text)
  const isBlank =
    isThere &&
    there.length === 0 &&
    edits.map(({ path }) => path).reduce(format.remove, putInto(before)) === format.emptyText
  // An existing file without content gets an extra line. It marks the file as the user's, so that svc does
  // not delete it later.
  const after = putInto(isBlank ? `${before.trim() === '' ? format.emptyText : before}\n` : before)
  for (const { path, value } of edits)
    if (!isSameSettings(valueAt(format.parse(after), path), value))
      throw new UnreadableSettingsError('could not be edited safely')
  return [there.length > 0 ? 'changed' : 'added', after]
}

function removeFrom(
  { client, name, force }: SetupRequest,
  target: Target,
  { text: before }: SettingsFile,
): Change {
  const { format = client.format } = target
  const settings = format.parse(before)
  const paths = target.pathsToRemove(settings).filter(path => valueAt(settings, path) !== undefined)
  const [main] = paths
  if (!main) return ['nothing', before]
  if (!force && !target.isOurs(valueAt(settings, main))) throw foreignEntryError(target.path, name)
  const after = paths.reduce(format.remove, before)
  for (const path of paths)
    if (valueAt(format.parse(after), path) !== undefined)
      throw new UnreadableSettingsError('could not be edited safely')
  return ['removed', after]
}

const foreignEntryError = (path: string, name: string) =>
  new SvcError(
    'forbidden',
    `${path} has an entry "${name}" that svc did not write, or that was changed since`,
    {
      hint: 'Choose another name with --name, or add --force to replace or remove it.',
    },
  )

async function listTargets(request: SetupRequest): Promise<Target[]> {
  const { ask, client, scope, name, server, folders, hook, wake } = request
  const candidates = client.files[scope]?.(folders)
  if (!candidates)
    throw badArgument('--project', `${client.title} has no settings for one project`, {
      hint: 'Omit the option.',
    })
  const servers: Target = {
    what: 'server',
    path: await findExisting(candidates),
    edits(settings) {
      const path = [...client.serversPath(settings), name]
      const there = valueAt(settings, path)
      const { consumer } = request
      const isKept = isOurServer(there) && !consumer?.isChosen
      const entry = client.toEntry(withConsumer(server, isKept ? consumerOf(there) : consumer?.name), name)
      return [{ path, value: entry.value }, ...(entry.also ?? [])]
    },
    pathsToRemove: settings => [
      [...client.serversPath(settings), name],
      ...(client.furtherPaths?.(name) ?? []),
    ],
    isOurs: isOurServer,
  }
  return [
    servers,
    ...(hook ? [createHookTarget(request, 'hook', hook)] : []),
    ...(ask ? [createHookTarget(request, 'ask', ask)] : []),
    ...(wake ? createWakeTargets(request, wake) : []),
  ]
}

/** Returns the first path that exists, else the first path. */
async function findExisting(paths: readonly string[]): Promise<string> {
  // A path that cannot be checked counts as existing; reading it then gives the error.
  for (const path of paths) if (await fileExists(path).catch(() => true)) return path
  return paths[0] ?? ''
}

const serverKeys =
  /^(type|command|args|url|httpUrl|headers|bearer_token_env_var|required|oauth|tools|env|timeout)$/
const inputKeys = /^(type|id|description|password)$/

/** Returns the command line of an entry. */
const wordsOf = ({ command, args }: Partial<Record<string, unknown>>): string[] =>
  [command, args].flat().filter(word => typeof word === 'string')

/** Returns the consumer of an entry that svc wrote. */
function consumerOf(value: unknown): string | undefined {
  const entry: Partial<Record<string, unknown>> = value ?? {}
  const words = wordsOf(entry)
  const at = words.indexOf('--consumer')
  return at < 0 ? /\?consumer=([\w.-]+)$/.exec(addressIn(entry))?.[1] : words[at + 1]
}

const addressIn = ({ url, httpUrl }: Partial<Record<string, unknown>>) => String(url ?? httpUrl ?? '')

/** Returns true if svc wrote the entry, whatever its paths. An entry that somebody extended is theirs. */
function isOurServer(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const own = 'id' in value ? inputKeys : serverKeys
  if (!Object.keys(value).every(key => own.test(key))) return false
  if ('id' in value) return true
  const { command, env }: Partial<Record<string, unknown>> = value
  // A token that the user filled in must not be lost.
  if (env !== undefined && !isSameSettings(env, { SVC_TOKEN: '' })) return false
  if (command !== undefined) return wordsOf(value).join(' ').includes('mcp -t stdio')
  // Earlier versions of svc wrote the URL without a path.
  return /^https?:\/\/[^/?#]+(\/([^?#]*\/)?(mcp|sse))?\/?(\?consumer=[\w.-]+)?$/.test(addressIn(value))
}

/**
 * Replaces the program by its name in a PATH folder if that leads to the same file. A package manager keeps
 * that name, and replaces the file behind it at each update.
 */
export function toLastingCommand(command: readonly string[], path: readonly string[]): string[] {
  const [program = '', ...rest] = command
  const real = realOf(program)
  const found = path
    .map(dir => join(dir, basename(program)))
    .find(file => real !== undefined && realOf(file) === real)
  return [found ?? program, ...rest]
}

const realOf = (path: string): string | undefined => attempt(() => realpathSync(path))
