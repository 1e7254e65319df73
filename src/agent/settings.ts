/**
 * The settings of agents, from the options of `svc agent` or from a file with several agents. Both have the same names:
 * `turns_per_day` in the file is `--turns-per-day`.
 */
import { join, resolve } from 'node:path'
import { canonicalOf } from '../config/time-zone.ts'
import { parseBackupInterval } from '../config/values.ts'
import { agentNameForm, agentNameRule } from '../model/agent.ts'
import { createFault, formatFault } from '../model/bad-json.ts'
import { badArgument } from '../model/error.ts'
import { isUserId, readUserId } from '../model/user-id.ts'
import { isObject, withoutUndefined } from '../platform/fields.ts'
import { findHomeFolder } from '../platform/process.ts'
import { type AgentConfig, type BackendConfig, defaultAgent } from './config.ts'

/** The settings of one agent, unchecked. */
export type AgentSettings = Readonly<Record<string, unknown>>

/** How to name a setting in an error, and the folder that relative paths start from. */
export interface SettingsPlace {
  nameOf(key: string): string
  readonly folder: string
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.length > 0 && value.every(isText)
const isSwitch = (value: unknown): boolean => typeof value === 'boolean'
const isNumber = (least: number, most: number) => (value: unknown) =>
  typeof value === 'number' && value >= least && value <= most
const hasOnly = (value: Readonly<Record<string, unknown>>, ...keys: string[]) =>
  Object.keys(value).every(key => keys.includes(key))

/** Names of folders, for /cd. A number means a place in its list. */
const folderName = /^\p{L}[\p{L}\p{N}_-]{0,49}$/u

type Check = readonly [expected: string, isRight: (value: unknown) => boolean]
const program: Check = ['a program and its arguments', isTexts]
const onOff: Check = ['true or false', isSwitch]

const checks: Readonly<Record<string, Check>> = {
  // The name is a part of the names of a consumer and of a folder.
  name: [agentNameRule, value => isText(value) && agentNameForm.test(value)],
  session: ['the name of a session', isText],
  command: program,
  acp: program,
  openai: [
    'an object with url, model and, if the address needs a key, key_file',
    value =>
      isObject(value) &&
      hasOnly(value, 'url', 'model', 'key_file') &&
      isText(value.url) &&
      /^https?:\/\/[^\s/]/.test(value.url) &&
      isText(value.model) &&
      (value.key_file === undefined || isText(value.key_file)),
  ],
  allow: ['users, by id or name, or "everyone"', value => value === 'everyone' || isTexts(value)],
  users: [
    'an object with a user, by id or name, as each key, and {} or { "folder": "…" } as its value',
    value =>
      isObject(value) &&
      Object.keys(value).length > 0 &&
      Object.values(value).every(
        one => isObject(one) && hasOnly(one, 'folder') && (one.folder === undefined || isText(one.folder)),
      ),
  ],
  folder: ['a folder', isText],
  folders: [
    'an object with a folder for each name',
    value =>
      isObject(value) &&
      Object.entries(value).length > 0 &&
      Object.entries(value).every(([name, folder]) => folderName.test(name) && isText(folder)),
  ],
  isolate: onOff,
  env: ['names of variables', value => isTexts(value) && value.every(name => /^\w+$/.test(name))],
  interrupt: onOff,
  commands: onOff,
  gather: ['seconds from 0 to 10', isNumber(0, 10)],
  skip_older: [
    'a time such as 10m, 2h or 1d',
    value => isText(value) && parseBackupInterval(value) !== undefined,
  ],
  beside: onOff,
  turns_per_day: ['a whole number from 1', value => Number.isInteger(value) && isNumber(1, 1_000_000)(value)],
  minutes_per_turn: ['minutes, more than 0 and at most 1440', isNumber(0.01, 1440)],
  long: ['"file" or "split"', value => value === 'file' || value === 'split'],
  resume_turns: onOff,
  approve: ['"others" or "all"', value => value === 'others' || value === 'all'],
  operator: ['a user, by id or name', isText],
  ask: onOff,
  mode: ['the name of a mode of the agent', isText],
  transcribe: ['a command', isText],
  zone: ['a time zone such as Asia/Shanghai', value => isText(value) && canonicalOf(value) !== undefined],
}

export const settingNames: readonly string[] = Object.keys(checks)

/** Returns the people that a setting names: one, a list, or the keys of an object. */
const namesIn = (value: string | readonly string[] | object = []): string[] =>
  typeof value === 'string' ? [value] : Array.isArray(value) ? value : Object.keys(value)

/** Checks the settings of an agent. @throws SvcError `invalid_arguments` that names the setting */
export function toAgentConfig(settings: AgentSettings, place: SettingsPlace): AgentConfig {
  for (const [key, value] of Object.entries(settings)) {
    const check = Object.hasOwn(checks, key) ? checks[key] : undefined
    if (!check) throw badArgument(place.nameOf(key), `unknown; expected one of ${settingNames.join(', ')}`)
    if (value !== undefined && !check[1](value))
      throw badArgument(
        place.nameOf(key),
        `expected ${check[0]}, got ${JSON.stringify(value)?.slice(0, 100)}`,
      )
  }
  const known = settings as Partial<Record<string, never>>
  const backend = backendOf(settings, place)
  if (known.isolate && backend.kind === 'openai')
    throw badArgument(place.nameOf('isolate'), 'expected with a program, not with an address')
  if (known.users && known.allow)
    throw badArgument(place.nameOf('users'), 'expected without allow: these users alone may talk with it')
  if (known.folder && known.folders)
    throw badArgument(place.nameOf('folder'), 'expected without folders: it works in the first of them')
  for (const key of ['allow', 'users', 'operator'])
    for (const who of namesIn(known[key])) if (isUserId(who)) readUserId(who, place.nameOf(key))
  const users: AgentConfig['users'] =
    known.users &&
    Object.fromEntries(
      Object.entries<{ folder?: string }>(known.users).map(([user, { folder }]) => [
        user,
        { folder: folder && toFolder(folder, place) },
      ]),
    )
  const folders =
    known.folders &&
    Object.fromEntries(
      Object.entries<string>(known.folders).map(([name, folder]) => [name, toFolder(folder, place)]),
    )
  // The config has other settings in place of those of a backend and of the ones below.
  const { acp, ask, beside, command, folder, gather, mode, openai, skip_older, ...plain } = known
  return {
    ...defaultAgent,
    ...(withoutUndefined({
      ...Object.fromEntries(Object.entries(plain).map(([key, value]) => [toCamelCase(key), value])),
      skipOlderMs: skip_older && parseBackupInterval(skip_older),
      gatherMs: gather === undefined ? undefined : gather * 1000,
      folder: folder === undefined ? folders && Object.values(folders)[0] : toFolder(folder, place),
      folders,
    }) as Partial<AgentConfig>),
    backend,
    users,
  }
}

export const toCamelCase = (key: string) =>
  key.replace(/_(.)/g, (_all, letter: string) => letter.toUpperCase())

/**
 * Reads a file with several agents: JSON with comments.
 *
 * @param path for errors, and relative paths start from its folder
 * @throws SvcError `invalid_arguments` that says where the file is wrong
 */
export async function parseAgentFile(text: string, path: string): Promise<AgentConfig[]> {
  const { parse, printParseErrorCode } = await import('jsonc-parser')
  const errors: { error: number; offset: number; length: number }[] = []
  const content: unknown = parse(text.replace(/^\ufeff/, ''), errors, { allowTrailingComma: true })
  const [first] = errors
  if (first) {
    const fault = createFault(text, printParseErrorCode(first.error), first.offset, first.length)
    throw badArgument('--config', `${path} is not valid JSON (${formatFault(fault)})`)
  }
  const agents = isObject(content) && hasOnly(content, 'agents') ? content.agents : undefined
  if (!Array.isArray(agents) || agents.length === 0 || !agents.every(isObject))
    throw badArgument('--config', `expected { "agents": [{ … }, …] } in ${path}`)
  const configs = agents.map((settings: AgentSettings, nth) =>
    toAgentConfig(settings, { nameOf: key => `agents[${nth}].${key}`, folder: resolve(path, '..') }),
  )
  for (const [nth, { name }] of configs.entries())
    if (configs.findIndex(one => one.name === name) !== nth)
      throw badArgument(
        `agents[${nth}].name`,
        `expected another name than "${name}", which an agent above has`,
      )
  return configs
}

function backendOf({ acp, ask, command, mode, openai }: AgentSettings, place: SettingsPlace): BackendConfig {
  if ([acp, command, openai].filter(one => one !== undefined).length !== 1)
    throw badArgument(place.nameOf('command'), 'expected one of a command, an ACP agent, and an address')
  if (acp) {
    const wanted = mode === undefined ? (ask === false ? 'own' : undefined) : { name: mode as string }
    if (ask && mode !== undefined) throw badArgument(place.nameOf('ask'), 'expected without a mode')
    return { kind: 'acp', command: acp as readonly string[], ...(wanted && { mode: wanted }) }
  }
  for (const [key, value] of Object.entries({ ask, mode }))
    if (value !== undefined)
      throw badArgument(
        place.nameOf(key),
        'expected with an ACP agent: the options of other programs set this',
      )
  if (command) return { kind: 'command', command: command as readonly string[] }
  const { key_file, model, url } = openai as { url: string; model: string; key_file?: string }
  return {
    kind: 'openai',
    url: url.replace(/\/+$/, ''),
    model,
    ...(key_file && { keyFile: toFolder(key_file, place) }),
  }
}

/** Returns the absolute path; `~` is the home folder. */
const toFolder = (path: string, { folder }: SettingsPlace): string =>
  /^~(?=$|[\\/])/.test(path) ? join(findHomeFolder(), path.slice(1)) : resolve(folder, path)
