/** The list of contents that ends a backup, and the names that its files may have. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { badArgument } from '../model/error.ts'
import { parseFields } from '../platform/fields.ts'
import { isOwnName } from '../platform/own-names.ts'
import { version } from '../version.ts'

/** Name of the list in the archive. */
export const manifestName = 'svc-backup.json'
/** Version of the list. It grows with each change that an earlier svc would misread. */
const form = 1

export interface ArchivedFile {
  /** Path in the archive. */
  name: string
  size: number
  /** Lower-case hex. */
  sha256: string
}

export interface Manifest {
  form: number
  /** The version of svc that made the backup. */
  svc: string
  /** Schema version of the store. */
  schema: number
  /** Unix ms: the store is as it was then. */
  created_at: number
  /** Id of the key that encrypts the secrets; null: they are not encrypted. */
  secret_key: string | null
  sandbox: boolean
  accounts: { session: string; bot_id: string }[]
  /** All other files, in the order of the archive. */
  files: ArchivedFile[]
}

export const createManifest = (facts: Omit<Manifest, 'form' | 'svc'>): Manifest => ({
  form,
  svc: version,
  ...facts,
})

/**
 * Parses the list.
 *
 * @throws SvcError `invalid_arguments` for the list of a newer version, and for what is none
 */
export function parseManifest(text: string): Manifest {
  const found: Partial<Manifest> | undefined = parseFields(text)
  if (found && Number(found.form) > form)
    throw badArgument(
      'file',
      `version ${found.svc} of svc made it, in a form that this version does not know`,
      { hint: 'Restore it with that version or a newer one.' },
    )
  if (found && isManifest(found)) return found
  throw badArgument('file', 'its list of contents is damaged')
}

/** Checks only what is used or shown. The files are compared with those in the archive. */
function isManifest(found: Partial<Manifest>): found is Manifest {
  const { accounts, created_at, files, sandbox, schema, secret_key, svc } = found
  const isText = (value: unknown) => typeof value === 'string'
  return (
    found.form === form &&
    isText(svc) &&
    Number.isSafeInteger(schema) &&
    Number.isSafeInteger(created_at) &&
    (secret_key === null || (isText(secret_key) && /^[0-9a-f]{16}$/.test(String(secret_key)))) &&
    typeof sandbox === 'boolean' &&
    Array.isArray(accounts) &&
    accounts.every(account => isText(account?.session) && isText(account?.bot_id)) &&
    Array.isArray(files)
  )
}

/** Files of the data directory itself, in the order of the archive. */
export const smallFiles = [
  dataFiles.defaultSession,
  dataFiles.secrets,
  dataFiles.apiToken,
  dataFiles.mcpKey,
] as const
/** Files of each session. The cursor comes first: it is never ahead of the contexts and messages. */
export const sessionFiles = [dataFiles.token, dataFiles.contexts] as const
/** Files that give access to the service. */
export const accessFiles: readonly string[] = [dataFiles.apiToken, dataFiles.mcpKey]
/** Folder of the media root with the files of waiting sends. */
const keptFolder = 'outbox'
export const worldName = `${dataFiles.sandbox}/world.db`

export const keptFileName = (name: string): string => `${dataFiles.media}/${keptFolder}/${name}`

/** Returns whether svc writes a file of this name into a backup. */
export function isArchivedName(name: string): boolean {
  const [folder = '', file, ...rest] = name.split('/')
  if (file === undefined) return name === dataFiles.store || smallFiles.some(own => own === name)
  if (folder === dataFiles.media)
    return file === keptFolder && rest.length === 1 && isOwnName('media', rest[0] ?? '')
  if (folder === dataFiles.sandbox)
    return name === worldName || (file === 'media' && rest.length === 1 && isOwnName('piece', rest[0] ?? ''))
  return rest.length === 0 && sessionFiles.some(own => own === file) && isOwnName('session', folder)
}

/** Returns where a file of the archive lies. */
export const placeOf = (name: string, { dir, mediaRoot }: { dir: string; mediaRoot: string }): string => {
  const [folder, ...rest] = name.split('/')
  return folder === dataFiles.media ? join(mediaRoot, ...rest) : join(dir, ...name.split('/'))
}
