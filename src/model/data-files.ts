/** The names of what svc keeps in a data directory. */

export const dataFiles = {
  /** Taken for the milliseconds in which session files are written. */
  dataLock: '.data.lock',
  /** Taken by the process that polls, for as long as it does. */
  pollLock: '.poll.lock',
  defaultSession: '.default_session',
  /** Until when the ended sign-ins of the panel would have lasted. */
  endedSignIns: '.signed_out.json',
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
