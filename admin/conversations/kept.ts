/**
 * Unsent drafts, files and messages, saved in this browser. They survive a failed send, a reload and a closed
 * tab. Texts are in localStorage, which writes at once; files and messages are in IndexedDB. If the browser
 * cannot save them, it asks before the page is left.
 */
import { signal } from '@preact/signals'
import { clear, createStore, del, entries, get, set } from 'idb-keyval'
import { ApiError, type ProblemDetails } from '../api.ts'
import { isDoubtfulCode } from '../errors.ts'
import { base } from '../service-urls.ts'
import type { Outgoing } from './pieces.ts'

/** A message that is not sent yet. */
export interface KeptMessage {
  /** The idempotency key. */
  key: string
  text: string
  files: readonly File[]
  queue: boolean
  /** The newest row id when it was sent. */
  after: number
  /** Unix ms. */
  at: number
  /** Why it failed; absent while it is under way. */
  error?: KeptError
}

interface KeptError {
  status: number
  code: string
  detail: string
  hint?: string
  details?: ProblemDetails
  retry_after?: number
}

const keptError = (error: unknown): KeptError =>
  error instanceof ApiError
    ? {
        status: error.status,
        code: error.code,
        detail: error.message,
        hint: error.hint,
        details: error.details,
        ...(error.retryAfter !== undefined && { retry_after: error.retryAfter }),
      }
    : { status: 0, code: 'internal', detail: String(error) }

export function keptFrom({ key, text, files, queue, after, at, error }: Outgoing): KeptMessage {
  const problem = error.value
  const kept = { key, text, files: files.map(({ file }) => file), queue, after, at }
  return problem === undefined ? kept : { ...kept, error: keptError(problem) }
}

/** The files of the draft, and the files of stored messages that WeChat refused, by row id. */
interface KeptFiles {
  attached: readonly File[]
  refused: ReadonlyMap<number, File>
}

type Key = ['message', session: string, userId: string, key: string] | ['files', string, string]

const disk = createStore(`svc${base}`, 'unsent')
/** Without a database a call rejects, as it does when the disk is full. It does not throw. */
const store: typeof disk = async (mode, work) => disk(mode, work)
const draftPrefix = `svc.draft${base} `
const draftAt = (session: string, userId: string) => draftPrefix + JSON.stringify([session, userId])

/** An unsent message: its text or the names of its files, and the newest row id when it was written. */
interface Unsent {
  words: string
  after: number
  /** Whether it may have arrived. */
  isDoubtful: boolean
}

/** The last unsent message of each conversation, by `unsentAt`. */
export const unsent = signal<ReadonlyMap<string, Unsent>>(new Map())
export const unsentAt = (session: string, userId: string): string => JSON.stringify([session, userId])

/** Keys of the drafts that would be lost if the page were closed. */
const atRisk = new Set<string>()
addEventListener('beforeunload', event => {
  if (atRisk.size > 0) event.preventDefault()
})

let writing: Promise<unknown> = Promise.resolve()
const longestWriteMs = 1000

/** Resolves when all changes so far are on disk, or after a second if the browser does not answer. */
export const whenWritten = (): Promise<unknown> =>
  Promise.race([writing, new Promise(resolve => setTimeout(resolve, longestWriteMs))])

/** Whether the writer has signed out. */
let isOver = false

function keep(key: Key, value: KeptMessage | KeptFiles): void {
  if (isOver) return
  const name = JSON.stringify(key)
  atRisk.add(name)
  const kept = set(key, value, store).then(
    () => atRisk.delete(name),
    // The disk is full, or the browser saves nothing. Then it asks before the page is left.
    () => {},
  )
  writing = Promise.all([writing, kept])
}

function forget(key: Key): void {
  atRisk.delete(JSON.stringify(key))
  writing = Promise.all([writing, del(key, store).catch(() => {})])
}

const everything = (): Promise<[Key, KeptMessage | KeptFiles][]> =>
  entries<Key, KeptMessage | KeptFiles>(store).catch(() => [])

export const draftOf = (session: string, userId: string): string =>
  localStorage.getItem(draftAt(session, userId)) ?? ''

export function keepDraft(session: string, userId: string, text: string): void {
  const at = draftAt(session, userId)
  try {
    if (text === '') localStorage.removeItem(at)
    else localStorage.setItem(at, text)
    atRisk.delete(at)
  } catch {
    atRisk.add(at)
  }
}

export function keepFiles(session: string, userId: string, files: KeptFiles): void {
  const key: Key = ['files', session, userId]
  const isEmpty = files.attached.length === 0 && files.refused.size === 0
  if (isEmpty) forget(key)
  else keep(key, files)
}

const unsentOf = ({ text, files, after, error }: KeptMessage): Unsent => ({
  words: text || files.map(({ name }) => name).join(', '),
  after,
  isDoubtful: isDoubtfulCode(error?.code),
})

export function keepMessage(session: string, userId: string, message: KeptMessage): void {
  if (message.error) unsent.value = new Map(unsent.value).set(unsentAt(session, userId), unsentOf(message))
  keep(['message', session, userId, message.key], message)
}

/** Deletes a saved message. @param left the last of the other unsent messages of the conversation */
export function forgetMessage(session: string, userId: string, key: string, left?: KeptMessage): void {
  const all = new Map(unsent.value)
  if (left) all.set(unsentAt(session, userId), unsentOf(left))
  else all.delete(unsentAt(session, userId))
  unsent.value = all
  forget(['message', session, userId, key])
}

/** Whether a message is still saved. True if the browser saves nothing. */
export async function isKept(session: string, userId: string, key: string): Promise<boolean> {
  const at: Key = ['message', session, userId, key]
  return (
    atRisk.has(JSON.stringify(at)) ||
    get(at, store).then(
      kept => kept !== undefined,
      () => true,
    )
  )
}

/** What is saved of a conversation, messages in the order in which they were written. */
export async function keptOf(session: string, userId: string) {
  const own = (await everything()).filter(([key]) => key[1] === session && key[2] === userId)
  const messages = own.flatMap(([key, value]) => (key[0] === 'message' ? [value as KeptMessage] : []))
  const files = own.find(([key]) => key[0] === 'files')?.[1] as KeptFiles | undefined
  return { messages: messages.sort((one, other) => one.at - other.at), files }
}

/** @returns the conversations with unsent messages */
export async function lookForUnsent(): Promise<readonly (readonly [session: string, userId: string])[]> {
  const found = (await everything()).filter(([key]) => key[0] === 'message')
  return found.map(([[, session, userId]]) => [session, userId] as const)
}

/** Deletes everything about a user, in all accounts. */
export async function forgetUser(userId: string): Promise<void> {
  const isOwn = (at: string) => (JSON.parse(at) as string[])[1] === userId
  for (const at of Object.keys(localStorage))
    if (at.startsWith(draftPrefix) && isOwn(at.slice(draftPrefix.length))) localStorage.removeItem(at)
  for (const [key] of await everything()) if (key[2] === userId) forget(key)
  unsent.value = new Map([...unsent.value].filter(([at]) => !isOwn(at)))
}

/** Deletes everything, so that the next person at this browser finds nothing. */
export async function forgetEverything(): Promise<void> {
  isOver = true
  for (const at of Object.keys(localStorage)) if (at.startsWith(draftPrefix)) localStorage.removeItem(at)
  atRisk.clear()
  await clear(store).catch(() => {})
}
