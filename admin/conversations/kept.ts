/**
 * What is written and not sent yet, kept in this browser: it outlives a failed send, a reload and a closed tab. Texts
 * lie where writing takes effect at once, files and messages in IndexedDB. What the browser does not keep is warned of.
 */
import { signal } from '@preact/signals'
import { clear, createStore, del, entries, get, set } from 'idb-keyval'
import { ApiError, type ProblemDetails } from '../api.ts'
import { base } from '../service-urls.ts'
import type { Outgoing } from './pieces.ts'

/** A message that was to be sent. */
export interface KeptMessage {
  /** The idempotency key. */
  key: string
  text: string
  files: readonly File[]
  queue: boolean
  /** Newest row when it was sent. */
  after: number
  /** Unix ms. */
  at: number
  /** Why it was refused; absent of one that was under way. */
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
        ...{ status: error.status, code: error.code, detail: error.message, hint: error.hint },
        details: error.details,
        ...(error.retryAfter !== undefined && { retry_after: error.retryAfter }),
      }
    : { status: 0, code: 'internal', detail: String(error) }

export function keptFrom({ key, text, files, queue, after, at, error }: Outgoing): KeptMessage {
  const problem = error.value
  const kept = { key, text, files: files.map(({ file }) => file), queue, after, at }
  return problem === undefined ? kept : { ...kept, error: keptError(problem) }
}

/** Files beside the draft, and those of stored messages that were refused, by row. */
interface KeptFiles {
  attached: readonly File[]
  refused: ReadonlyMap<number, File>
}

type Key = ['message', session: string, userId: string, key: string] | ['files', string, string]

const disk = createStore(`svc${base}`, 'unsent')
/** Where there is no database at all, a call fails as it does where nothing can be written: later. */
const store: typeof disk = async (mode, work) => disk(mode, work)
const draftPrefix = `svc.draft${base} `
const draftAt = (session: string, userId: string) => draftPrefix + JSON.stringify([session, userId])

/** A message that was not sent: its text, or else the names of its files; and the newest row when it was written. */
interface Unsent {
  words: string
  after: number
}
/** What was not sent last in a conversation, by JSON of session and user. */
export const unsent = signal<ReadonlyMap<string, Unsent>>(new Map())
export const unsentAt = (session: string, userId: string): string => JSON.stringify([session, userId])

/** What would be lost with the page. */
const atRisk = new Set<string>()
addEventListener('beforeunload', event => {
  if (atRisk.size > 0) event.preventDefault()
})

let writing: Promise<unknown> = Promise.resolve()
const longestWriteMs = 1000

/** When what was kept and forgotten so far is on the disk, or after a second where the browser does not say. */
export const written = (): Promise<unknown> =>
  Promise.race([writing, new Promise(resolve => setTimeout(resolve, longestWriteMs))])

/** Whoever wrote it has signed out. */
let isOver = false

function keep(key: Key, value: KeptMessage | KeptFiles): void {
  if (isOver) return
  const name = JSON.stringify(key)
  atRisk.add(name)
  const kept = set(key, value, store).then(
    () => atRisk.delete(name),
    // No room, or a browser that keeps nothing: it asks before the page is left.
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

const unsentOf = ({ text, files, after }: KeptMessage): Unsent => ({
  words: text || files.map(({ name }) => name).join(', '),
  after,
})

export function keepMessage(session: string, userId: string, message: KeptMessage): void {
  if (message.error) unsent.value = new Map(unsent.value).set(unsentAt(session, userId), unsentOf(message))
  keep(['message', session, userId, message.key], message)
}

/** @param left what else of this conversation is unsent, the last of it */
export function forgetMessage(session: string, userId: string, key: string, left?: KeptMessage): void {
  const all = new Map(unsent.value)
  if (left) all.set(unsentAt(session, userId), unsentOf(left))
  else all.delete(unsentAt(session, userId))
  unsent.value = all
  forget(['message', session, userId, key])
}

/** Whether a message still waits here to be sent; so it does where the browser keeps nothing. */
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

/** What is kept of a conversation; messages in the order in which they were written. */
export async function keptOf(session: string, userId: string) {
  const own = (await everything()).filter(([key]) => key[1] === session && key[2] === userId)
  const messages = own.flatMap(([key, value]) => (key[0] === 'message' ? [value as KeptMessage] : []))
  const files = own.find(([key]) => key[0] === 'files')?.[1] as KeptFiles | undefined
  return { messages: messages.sort((one, other) => one.at - other.at), files }
}

/** @returns the conversations with messages that were to be sent */
export async function lookForUnsent(): Promise<readonly (readonly [session: string, userId: string])[]> {
  const found = (await everything()).filter(([key]) => key[0] === 'message')
  return found.map(([[, session, userId]]) => [session, userId] as const)
}

/** Nothing of it shall be there for the next person at this browser. */
export async function forgetEverything(): Promise<void> {
  isOver = true
  for (const at of Object.keys(localStorage)) if (at.startsWith(draftPrefix)) localStorage.removeItem(at)
  atRisk.clear()
  await clear(store).catch(() => {})
}
