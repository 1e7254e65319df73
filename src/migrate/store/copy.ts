/**
 * Moves a store between a data directory and PostgreSQL. Nobody uses either side meanwhile. The target cannot be opened
 * until it is complete and equal to the source, and the source not from then on: at no moment can both be opened.
 */
import { streamOf } from '../../ilink/progress.ts'
import { SvcError } from '../../model/error.ts'
import { nodeCrypto } from '../../platform/lazy-crypto.ts'
import { RoomPart } from '../../platform/runtime.ts'
import type { NewAuditLine } from '../../storage/audit.ts'
import type { MediaStore } from '../../storage/media-store.ts'
import { mapToken, type SecretChange } from '../../storage/sealed-places.ts'
import {
  changeSecrets,
  copiedTables,
  rejectForeignNames,
  type StoreRow,
  type StoreTable,
} from '../../storage/table-list.ts'
import type { CopiedState, CopySide, CopySource, CopyTarget } from './side.ts'

/** What is being done, for a person who waits. */
export interface CopyProgress {
  readonly step: 'copying' | 'verifying'
  readonly table: string
  readonly rows: number
}

export interface CopyResult {
  readonly from: string
  readonly to: string
  /** Number of rows, by table. */
  readonly rows: Readonly<Record<string, number>>
  readonly sessions: number
  /** Files of waiting sends, and uploads. */
  readonly files: number
  /** Sessions that have to log in again, since their credentials are damaged. */
  readonly damaged: readonly string[]
}

interface CopyOptions {
  /** Line of the audit log of the target, without a subject. */
  line?: NewAuditLine | undefined
  onProgress(progress: CopyProgress): void
}

/**
 * Copies everything, compares both sides, and marks the source as moved.
 *
 * @throws SvcError `store_unavailable`. The source stays as it was, and the same call carries on
 */
export async function copyStore(
  source: CopySource & { movedTo?: string },
  target: CopyTarget,
  { line, onProgress }: CopyOptions,
): Promise<CopyResult> {
  const moved = line && { ...line, subject: `${source.place} ${target.place}` }
  if (source.movedTo !== undefined) return await finish(source, target, moved)
  const copy = new Copy({ source, target, onProgress })
  // The source may have been used since the copy began that is carried on. The comparison shows it.
  let equal = await copy.run(target.state !== 'empty')
  if (!equal && target.state !== 'empty') equal = await copy.run(false)
  if (!equal)
    throw new SvcError('store_unavailable', `the copy in ${target.place} differs from ${source.place}`, {
      hint: 'Nothing was moved: use the store where it was. Run the command again; if it fails again, report it.',
    })
  await target.markVerified()
  await source.markMoved(target.place)
  await target.release(moved)
  return copy.result
}

/** Completes a copy that was interrupted after its source was marked as moved. */
async function finish(
  source: CopySource & { movedTo?: string },
  target: CopyTarget,
  line: NewAuditLine | undefined,
): Promise<CopyResult> {
  if (target.state !== 'verified' || source.movedTo !== target.place) throw movedError(source)
  const rows: Record<string, number> = {}
  for (const table of copiedTables) rows[table.name] = (await sumUp(target, table)).rows
  const { accounts, damaged } = await target.readState()
  const files = (await target.listUploads()).length
  await target.release(line)
  return { from: source.place, to: target.place, rows, sessions: accounts.length, files, damaged }
}

export const movedError = ({ movedTo, place }: { movedTo?: string; place: string }): SvcError =>
  new SvcError('store_unavailable', `the store in ${place} was moved to ${movedTo}`, {
    hint: 'Use the store there. This one no longer changes.',
  })

class Copy extends RoomPart<{ source: CopySource; target: CopyTarget } & Pick<CopyOptions, 'onProgress'>> {
  readonly #rows: Record<string, number> = {}
  #files = 0
  #state: CopiedState = { accounts: [], damaged: [] }

  get result(): CopyResult {
    const { accounts, damaged } = this.#state
    return {
      from: this.ports.source.place,
      to: this.ports.target.place,
      rows: this.#rows,
      sessions: accounts.length,
      files: this.#files,
      damaged,
    }
  }

  /**
   * @param carryOn whether rows of an earlier copy stay
   * @returns whether both sides are equal
   */
  async run(carryOn: boolean): Promise<boolean> {
    const { source, target } = this.ports
    await target.begin(source.identity)
    const kept = new Set<string>()
    for (const table of copiedTables) await this.#copyTable(table, carryOn, kept)
    this.#state = await source.readState()
    await target.writeState(this.#state)
    this.#files = await this.#copyFiles([...kept])
    await target.complete(await source.readNumbers())
    for (const table of copiedTables) if (!(await this.#isEqual(table))) return false
    return textOf(this.#state, source.open) === textOf(await target.readState(), target.open)
  }

  /** @param kept receives the names of the files of waiting sends */
  async #copyTable(table: StoreTable, carryOn: boolean, kept: Set<string>): Promise<void> {
    const { source, target } = this.ports
    const seal: SecretChange = (value, place) => target.seal(source.open(value, place), place)
    const last = carryOn && table.grows ? await target.readLast(table) : undefined
    if (last === undefined) await target.clear(table)
    let rows = 0
    for await (const page of source.read(table, last)) {
      for (const row of page) rejectForeignNames(table, row)
      if (table.name === 'outbox_part') for (const row of page) noteFile(row, kept)
      await target.write(
        table,
        page.map(row => changeSecrets(table, row, seal)),
      )
      rows += page.length
      this.ports.onProgress({ step: 'copying', table: table.name, rows })
    }
  }

  async #isEqual(table: StoreTable): Promise<boolean> {
    const { onProgress, source, target } = this.ports
    onProgress({ step: 'verifying', table: table.name, rows: 0 })
    const [before, after] = await Promise.all([sumUp(source, table), sumUp(target, table)])
    this.#rows[table.name] = after.rows
    return before.rows === after.rows && before.sum === after.sum
  }

  async #copyFiles(queued: readonly string[]): Promise<number> {
    const [source, target] = [this.ports.source.media, this.ports.target.media]
    let files = 0
    for (const id of queued) files += await copyFile(id, source.queued, target.queued)
    for (const id of await this.ports.source.listUploads())
      files += await copyFile(id, source.uploads, target.uploads)
    return files
  }
}

function noteFile({ file, status }: StoreRow, kept: Set<string>): void {
  if (file === undefined || !['asked', 'queued', 'sending'].includes(String(status))) return
  const { name } = JSON.parse(String(file)) as { name?: unknown }
  if (typeof name === 'string') kept.add(name)
}

/** @returns 0 for a file that is gone or has expired, else 1 */
async function copyFile(id: string, from: MediaStore, to: MediaStore): Promise<0 | 1> {
  const file = await from.open(id)
  if (!file) return 0
  try {
    await to.discard([id])
    const stored = await to.put(
      id,
      streamOf(copyBlocks(file.read()), () => {}),
      {
        size: file.size,
        note: file.note,
        signal: new AbortController().signal,
      },
    )
    if (stored.size === file.size && (file.md5 === undefined || stored.md5 === file.md5)) return 1
    throw new SvcError('store_unavailable', `the file ${id} changed while it was copied`)
  } finally {
    await file.release()
  }
}

/** The next block is read into the same memory. */
async function* copyBlocks(blocks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const block of blocks) yield new Uint8Array(block)
}

/** Count of the rows of a table, and a hash of them in any order. Secrets are opened: each sealing differs. */
async function sumUp(side: CopySide, table: StoreTable): Promise<{ rows: number; sum: bigint }> {
  const { createHash } = nodeCrypto()
  let [rows, sum] = [0, 0n]
  for await (const page of side.read(table))
    for (const row of page) {
      const opened = changeSecrets(table, row, side.open)
      const text = JSON.stringify(table.columns.map(column => opened[column] ?? null))
      sum += createHash('sha256').update(text).digest().readBigUInt64LE()
      rows++
    }
  return { rows, sum: BigInt.asUintN(64, sum) }
}

function textOf({ accounts }: CopiedState, open: SecretChange): string {
  const opened = accounts.map(({ token, ...account }) => ({
    ...account,
    ...mapToken({ bot_id: account.bot_id, token }, open),
    info: JSON.parse(account.info) as unknown,
  }))
  return JSON.stringify(opened.map(account => JSON.stringify(sortFields(account))).sort())
}

const sortFields = (fields: object): object => Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))
