/** The names of the files in a data directory. */

export const dataFiles = {
  /** Lock, held for the milliseconds in which session files are written. */
  dataLock: '.data.lock',
  /** Lock, held by the process that polls, for as long as it polls. */
  pollLock: '.poll.lock',
  /** Lock, held by the process that makes a backup. */
  backupLock: '.backup.lock',
  defaultSession: '.default_session',
  /**
   * The address and process of each running service, one line of JSON each. A service removes its line when
   * it stops.
   */
  address: '.address',
  /** Key that signs the ids of MCP sessions, so that they survive a restart. */
  mcpKey: '.mcp_key',
  /** The id of the secret key with which the secrets in the directory are encrypted; absent: they are not. */
  secrets: '.secrets',
  /** Folder of the working folders of agents. */
  agents: '.agents',
  /**
   * Exists while the directory must not be opened: a restore or a copy into it has not finished, or its store was moved.
   * In that of a node: its store is in a database.
   */
  restoring: '.restoring',
  store: 'messages.db',
  apiToken: 'api_token',
  /** Folder of the sandbox's own files. It marks the data directory as the sandbox's. */
  sandbox: 'sandbox',
  /** The default media root. */
  media: 'media',
  /** Files in the folder of each session: `token` and `contexts`. */
  token: 'token.json',
  contexts: 'contexts.json',
} as const

const names: ReadonlySet<string> = new Set(Object.values(dataFiles))
/** Ending of a file that is being written beside the one of its name, and of SQLite's files beside it. */
const unfinished = /\.[0-9a-f]{12}\.tmp(-(journal|wal|shm))?$/

/** Returns whether a killed process left a file of this name: svc replaces its files in one step. */
export const isHalfWritten = (name: string): boolean =>
  unfinished.test(name) && names.has(name.replace(unfinished, ''))

/** Returns whether a folder of this name may belong to a session. */
export const isSessionFolder = (name: string): boolean =>
  !name.startsWith('.') && name !== dataFiles.media && name !== dataFiles.sandbox

/** Names that Windows reserves for devices. */
const devices = /^(con|prn|aux|nul|(com|lpt)[0-9¹²³])$/

/**
 * Returns whether a session cannot have this name, because the system may take it for a file of svc or a
 * device.
 */
export function isReservedName(name: string): boolean {
  const lower = name.toLowerCase()
  const [stem = ''] = lower.split('.')
  const own: readonly string[] = [dataFiles.media, dataFiles.sandbox, dataFiles.apiToken]
  return lower.startsWith(dataFiles.store) || own.includes(stem) || devices.test(stem)
}
