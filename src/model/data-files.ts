/** The names of what svc keeps in a data directory. */

export const dataFiles = {
  /** Taken for the milliseconds in which session files are written. */
  dataLock: '.data.lock',
  /** Taken by the process that polls, for as long as it does. */
  pollLock: '.poll.lock',
  defaultSession: '.default_session',
  /** Until when the ended sign-ins of the panel would have lasted. */
  endedSignIns: '.signed_out.json',
  /** Folder of the QR logins under way, a file each by the session's name. */
  logins: '.logins',
  /** Where each service that runs listens, and its process: a line of JSON each, removed when it stops. */
  address: '.address',
  /** Signs the ids of MCP sessions, which so live through a restart. */
  mcpKey: '.mcp_key',
  store: 'messages.db',
  apiToken: 'api_token',
  /** Folder of the sandbox's own files; it marks a directory as the sandbox's. */
  sandbox: 'sandbox',
  /** The media root, unless it lies elsewhere. */
  media: 'media',
  /** In the folder of a session. */
  token: 'token.json',
  contexts: 'contexts.json',
} as const

/** Whether a folder of this name may be a session's. */
export const isSessionFolder = (name: string): boolean =>
  !name.startsWith('.') && name !== dataFiles.media && name !== dataFiles.sandbox

/** Folders that Windows keeps for devices. */
const devices = /^(con|prn|aux|nul|(com|lpt)[0-9¹²³])$/

/** Whether a folder of this name, or of one that a system takes for it, cannot be a session's. */
export function isReservedName(name: string): boolean {
  const lower = name.toLowerCase()
  const [stem = ''] = lower.split('.')
  const own: readonly string[] = [dataFiles.media, dataFiles.sandbox, dataFiles.apiToken]
  return lower.startsWith(dataFiles.store) || own.includes(stem) || devices.test(stem)
}
