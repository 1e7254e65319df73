/** Opens the storage on one machine: session folders, message log and leases, in one data directory. */
import { join, relative } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import type { Inbound } from '../../model/session.ts'
import { SharedTurns } from '../../platform/clock.ts'
import { type FileLock, openLock } from '../../platform/lock.ts'
import { Tasks } from '../../platform/tasks.ts'
import { batchPartOf } from '../deduplication.ts'
import type { PolledMessage } from '../messages.ts'
import type { PolledBatch, Storage } from '../storage.ts'
import { rejectClosed } from './closed-mark.ts'
import { openLeases } from './leases.ts'
import { keepLocksMarked, openSealer, rejectChangedState } from './secret-state.ts'
import { createLogins } from './state/logins.ts'
import { type FileState, openState } from './state/state.ts'
import { type LogInternals, openSqliteStore, type StoreOptions } from './store.ts'
import { inMemory } from './work.ts'

export interface StorageOptions extends Omit<StoreOptions, 'path' | 'filed' | 'sealer'> {
  /** The data directory. */
  dir: string
  /** Text of the secret key, if one is given. */
  secret?: string | undefined
  /** Path of the message log: by default `messages.db` of the directory; false for a log in memory only. */
  path?: string | false | undefined
}

/** A log in memory has at most this many messages, about 10 MB. */
const memoryRows = 10_000

/** @throws SvcError `store_unavailable`; nothing stays open then */
export async function openStorage({ dir, secret, path, ...options }: StorageOptions): Promise<Storage> {
  const { clock, log, maxCount, tasks = new Tasks(clock) } = options
  /** Open resources, the newest first. */
  const open: { close(): Promise<void> }[] = []
  const close = async () => {
    for (const resource of open.splice(0)) await resource.close()
  }
  try {
    const sealer = await openSealer(dir, secret, log)
    if (sealer.keyId !== undefined && path && relative(dir, path) !== dataFiles.store) throw strayStoreError()
    const lock = await openLock(join(dir, dataFiles.dataLock))
    open.unshift(lock)
    const store = await openSqliteStore({
      ...options,
      tasks,
      sealer,
      log: log.child('store'),
      path: path === false ? inMemory : (path ?? join(dir, dataFiles.store)),
      fileContexts: session => state.contexts.read(session),
      maxCount: path === false ? Math.min(maxCount || memoryRows, memoryRows) : maxCount,
    })
    open.unshift(store.maintenance)
    await rejectChangedState(dir, sealer)
    // A process that waited for a copy of the store must not open what was moved.
    await rejectClosed(dir)
    // Nothing else shows svc secrets that a process without a store uses the directory.
    const run: FileLock['run'] = (work, limits) =>
      lock.run(async () => {
        await rejectChangedState(dir, sealer)
        return work()
      }, limits)
    const shared = path === false ? { run } : lock
    const state: FileState = openState({
      dir,
      lock: shared,
      log: log.child('state'),
      sealer,
      rows: store,
    })
    await state.sessions.completeRenames()
    const ports = { sessions: state.sessions, clock, log: log.child('poller'), tasks }
    const leases = await openLeases(join(dir, dataFiles.pollLock), ports)
    open.splice(1, 0, leases)
    await keepLocksMarked(dir, sealer)
    const { joins, logins: rows, signIns } = store
    const logins = createLogins({ lock: shared, sessions: state.sessions, rows, joins })
    return {
      state: { ...state, logins, signIns },
      store,
      leases,
      ingest: createIngest(store, state, clock),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

const strayStoreError = () =>
  new SvcError('invalid_arguments', 'a store elsewhere cannot be used while the secrets are encrypted', {
    hint: 'svc secrets changes only the data directory: keep the store there (store: true), or in memory.',
  })

/** Rows, and their characters, stored in one step; other work runs between steps. */
const [stepRows, stepCharacters] = [500, 256 * 1024]

/** Stores messages, contexts and cursor, which are one file each. */
function createIngest(
  { contexts, intake }: LogInternals,
  state: Pick<FileState, 'commitBatch' | 'sessions'>,
  clock: StoreOptions['clock'],
): Storage['ingest'] {
  /** The batch of each token that may be tried again, and the results of its messages so far. */
  const unfinished = new Map<string, { id: string; rows: (number | 'duplicate')[] }>()
  const turns = new SharedTurns(clock)
  return async ({ id, messages, botId, ...batch }: PolledBatch) => {
    const { token } = batch
    const before = unfinished.get(token)
    const tried = before?.id === id ? before : { id, rows: [] }
    unfinished.set(token, tried)
    const { rows } = tried
    const turn = turns.join()
    // A message that a former bot received late gives no right to answer through the new bot. If the current
    // bot cannot be read, the messages are stored anyway.
    const { bot: current } = (await state.sessions.get(batch.session).catch(() => undefined)) ?? {}
    const isLate = current !== undefined && current.bot_id !== botId
    const whole = batchPartOf(isLate ? messages.map(withoutRight) : messages)
    while (rows.length < messages.length) {
      const part = whole.messages.slice(rows.length, rows.length + countFitting(messages, rows.length))
      // A small batch does not yield.
      if (part.length < messages.length) await turn()
      rows.push(...(await intake.insertReceived(batch.session, botId, part, { ...whole, messages: part })))
    }
    if (messages.length > 0) await letReadersAnswer()
    const inbound = messages.flatMap((message, nth) => inboundOf(message, rows[nth] !== 'duplicate'))
    const cursor = await state.commitBatch({ ...batch, inbound })
    if (cursor === 'gone') {
      const { bot } = (await state.sessions.get(batch.session)) ?? {}
      await contexts.withdraw(batch.session, inbound, bot !== undefined && bot.bot_id !== botId)
    }
    const mayMove = cursor === 'gone' && (await state.sessions.list()).some(({ bot }) => bot?.token === token)
    if (!mayMove && unfinished.get(token) === tried) unfinished.delete(token)
    return { rows, cursor }
  }
}

/**
 * Readers that wait for messages take them in one turn of the event loop. Their answers leave in the next
 * one.
 */
async function letReadersAnswer(): Promise<void> {
  for (let rounds = 0; rounds < 2; rounds++) await new Promise<void>(resolve => setImmediate(resolve))
}

/** Returns the number of messages from `from` on that are stored in one step. */
function countFitting(messages: readonly PolledMessage[], from: number): number {
  let characters = 0
  for (let count = 0; count < stepRows && from + count < messages.length; count++) {
    characters += messages[from + count]!.raw.length
    if (characters > stepCharacters && count > 0) return count
  }
  return Math.min(stepRows, messages.length - from)
}

/** Returns the message alone, as one that says nothing of the right to answer. */
const withoutRight = ({ written_at: _, contextToken: _token, ...message }: PolledMessage): PolledMessage =>
  message

function inboundOf(
  { from_user, contextToken, repeated, written_at }: PolledMessage,
  isNew: boolean,
): Inbound[] {
  if (!from_user) return []
  const wrote = isNew && written_at !== undefined ? { received_at: written_at } : repeated
  return [{ user_id: from_user, ...(contextToken && { token: contextToken }), ...wrote }]
}
