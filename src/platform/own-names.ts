/**
 * The forms of the names that svc gives to files and folders. A store that comes from elsewhere may have any name in their
 * place: a value of a store that names a file becomes a path here.
 */
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { agentNameForm } from '../model/agent.ts'
import { SvcError } from '../model/error.ts'
import { normalizeSessionName } from '../model/session.ts'
import { attempt } from './fields.ts'
import { returnIfAbsent } from './files.ts'

/** Whether a folder with that name, in any Unicode normal form, can be a session's. */
const isSessionName = (folder: string): boolean =>
  attempt(() => normalizeSessionName(folder)) === folder.normalize('NFC')

const forms = {
  /** The folder of a session. */
  session: { test: isSessionName },
  /** An upload, or the file of a waiting send. */
  media: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.queued)?$/,
  /** The folder of an agent, and in it the one of a conversation. */
  agent: agentNameForm,
  conversation: /^[0-9a-f]{16}$/,
  /** The id of a key, which names the folder of its downloads. */
  key: /^[0-9a-z]{1,64}$/,
  /** A file of the simulated CDN. */
  piece: /^[\w-]{1,100}$/,
} as const

export type NameForm = keyof typeof forms

export const isOwnName = (form: NameForm, name: string): boolean => forms[form].test(name)

/** Returns the path of a file or a folder in a folder. @throws SvcError as `requireOwnName` */
export const ownPath = (folder: string, form: NameForm, name: string): string =>
  join(folder, requireOwnName(form, name))

/** Returns the name. @throws SvcError `invalid_arguments` for one that svc does not give */
export function requireOwnName(form: NameForm, name: string): string {
  if (isOwnName(form, name)) return name
  throw new SvcError('invalid_arguments', `svc gives no file the name ${JSON.stringify(name)}`, {
    hint: 'The store was changed by another program. Nothing was written or removed under that name.',
  })
}

/** @throws an Error in the form of the system's if svc's own folder is a link: what it leads to is not svc's */
export async function rejectLink(folder: string): Promise<void> {
  const found = await lstat(folder).catch(returnIfAbsent(undefined))
  if (found?.isSymbolicLink())
    throw Object.assign(new Error(`${folder} is a link`), { code: 'ELOOP', path: folder })
}
