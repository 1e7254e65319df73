/** The nine tools, in the order of the docs. A new tool is a file in this folder and a line here. */
import { download } from './download.ts'
import { history } from './history.ts'
import { login } from './login.ts'
import { logout } from './logout.ts'
import type { Tool } from './operation.ts'
import { recv } from './recv.ts'
import { renameSession } from './rename-session.ts'
import { send } from './send.ts'
import { sessions } from './sessions.ts'
import { setDefault } from './set-default.ts'

export { describeFor, type Tool } from './operation.ts'

/** The tools, by the names of the library's methods. */
export const verbs = {
  recv,
  send,
  download,
  history,
  sessions,
  login,
  logout,
  renameSession,
  setDefault,
} as const

export const tools: readonly Tool[] = Object.values(verbs)
