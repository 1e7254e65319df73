/** Checks a whole backup without writing anything. */
import { Buffer } from 'node:buffer'
import { dataFiles } from '../model/data-files.ts'
import { badArgument } from '../model/error.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { schemaVersionOf } from '../platform/sqlite.ts'
import { newestSchemaVersion } from '../storage/sqlite/migrations.ts'
import { describeUnreleased, isUnreleased, wayFromDirectory } from '../storage/unreleased.ts'
import { damageError, type OpenedArchive, type ReadFile } from './archive.ts'
import { type ArchivedFile, isArchivedName, type Manifest, manifestName, parseManifest } from './manifest.ts'

/** Largest list of contents. */
const maxManifestBytes = 64 * 1024 * 1024
/** Length of the header of a database. */
const headBytes = 100

/**
 * Reads a backup and compares it with its list of contents.
 *
 * @throws SvcError `invalid_arguments`
 */
export const checkArchive = (archive: OpenedArchive): Promise<Manifest> =>
  check(archive).catch(error => {
    throw damageError(error)
  })

async function check(archive: OpenedArchive): Promise<Manifest> {
  const found = new Map<string, ArchivedFile>()
  let list: string | undefined
  let schema: number | undefined
  for await (const file of archive.files()) {
    const { name, size } = file
    // Some file systems take two spellings for one name.
    const key = name.normalize('NFC').toLowerCase()
    if (list !== undefined || found.has(key)) throw badArgument('file', `it has a file too many: ${name}`)
    if (!file.isFile || !(name === manifestName || isArchivedName(name))) throw foreignError(name)
    const isList = name === manifestName
    if (isList && size > maxManifestBytes) throw badArgument('file', 'its list of contents is too long')
    const { head, sha256 } = await readWhole(file, isList ? size : headBytes)
    if (isList) list = head.toString('utf8')
    else found.set(key, { name, size, sha256 })
    if (name === dataFiles.store) schema = schemaVersionOf(head)
  }
  if (list === undefined) throw badArgument('file', 'it is cut off: its list of contents is missing')
  const manifest = parseManifest(list)
  if (isUnreleased(manifest.schema))
    throw badArgument('file', describeUnreleased('its messages.db', manifest.schema), {
      hint: `Restore it with the version of svc that made it. ${wayFromDirectory('svc store aside')}`,
    })
  if (manifest.schema > newestSchemaVersion)
    throw badArgument('file', `version ${manifest.svc} of svc made it, which is newer than this one`, {
      hint: 'Restore it with that version or a newer one.',
    })
  const facts = (files: Iterable<ArchivedFile>) =>
    JSON.stringify([...files].map(({ name, sha256, size }) => [name, size, sha256]))
  if (schema === manifest.schema && facts(manifest.files) === facts(found.values())) return manifest
  throw badArgument('file', 'its files are not the ones in its list of contents')
}

const foreignError = (name: string) =>
  badArgument('file', `it has a file that is not one of a backup: ${JSON.stringify(name)}`, {
    hint: 'If a newer version of svc made it, restore it with that version.',
  })

/** Reads a file to its end. @returns its first `keep` bytes, and its hash */
async function readWhole({ body }: ReadFile, keep: number): Promise<{ head: Buffer; sha256: string }> {
  const hash = nodeCrypto().createHash('sha256')
  const kept: Uint8Array[] = []
  let bytes = 0
  for await (const block of body) {
    hash.update(block)
    if (bytes < keep) kept.push(block.slice(0, keep - bytes))
    bytes += block.length
  }
  return { head: Buffer.concat(kept), sha256: hash.digest('hex') }
}
