/** Files that a body names: addresses and base64, alone, in lists, or in objects. Never a path of this machine. */
import { Buffer } from 'node:buffer'
import { type AttachedFile, maxFiles } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import { isWebAddress, textAt } from './sent-notice.ts'

/** Files of a notice, and lines about those that cannot be taken. */
export interface ReadFiles {
  readonly files: readonly AttachedFile[]
  readonly lines: readonly string[]
}

const nameKeys = ['filename', 'file_name', 'name']
const addressKeys = ['url', 'href', 'uri', 'link', 'attach', 'path', 'contentUrl']
const dataKeys = ['base64', 'data', 'content', 'contents']
/** What the attachments of chat programs have, and files have not. */
const chatKeys = ['text', 'fallback', 'pretext', 'color', 'fields', 'blocks', 'contentType', 'title']

/** Whether a value is an attachment as chat programs have it: a text with fields. */
export const isChatAttachment = (value: unknown): boolean =>
  isObject(value) &&
  chatKeys.some(key => Object.hasOwn(value, key)) &&
  !dataKeys.some(key => textAt(value, key) !== '')

const firstOf = (value: unknown, keys: readonly string[]): string =>
  keys.map(key => textAt(value, key).trim()).find(Boolean) ?? ''

/** Reads the value of a field that names files. */
export function readFiles(value: unknown, name: string | undefined): ReadFiles {
  const all = (
    Array.isArray(value) ? value : typeof value === 'string' ? splitAddresses(value) : [value]
  ).filter(one => one !== '' && one !== null && one !== undefined && !isChatAttachment(one))
  const files: AttachedFile[] = []
  const lines: string[] = []
  for (const one of all.slice(0, maxFiles)) {
    const file = readFile(one, all.length === 1 ? name : undefined)
    if (typeof file !== 'string') files.push(file)
    else if (file) lines.push(`${file.slice(0, 300)} (not taken: expected http, https or base64)`)
  }
  if (all.length > maxFiles)
    lines.push(`${all.length - maxFiles} further files (not taken: one call has at most ${maxFiles})`)
  return { files, lines }
}

/** Apprise takes several addresses in one text. */
const splitAddresses = (text: string): string[] => {
  const parts = text.split(/[\s,]+(?=https?:\/\/)/i).map(part => part.trim())
  return parts.every(isWebAddress) ? parts : [text.trim()]
}

/** Returns a file, or how to name what is none. */
function readFile(value: unknown, name: string | undefined): AttachedFile | string {
  const named = firstOf(value, nameKeys) || name
  const address = typeof value === 'string' ? value : firstOf(value, addressKeys)
  if (isWebAddress(address)) return { name: named, url: address }
  const data = typeof value === 'string' ? value : firstOf(value, dataKeys)
  // A path may look like base64.
  const isShort = typeof value === 'string' && value.length < 64 && !/^data:/i.test(value)
  const bytes = isShort ? undefined : bytesOf(data)
  return bytes ? { name: named, bytes } : named || address || data
}

/** Returns the bytes of base64, also as a `data:` address; undefined for anything else. */
function bytesOf(text: string): Uint8Array<ArrayBuffer> | undefined {
  const [, data = text] = /^data:[^,]{0,200};base64,(.*)$/is.exec(text) ?? []
  const plain = data.replace(/\s/g, '')
  const isBase64 = plain.length > 0 && plain.length % 4 !== 1 && /^[\w+/-]*={0,2}$/.test(plain)
  return isBase64
    ? new Uint8Array(Buffer.from(plain.replaceAll('-', '+').replaceAll('_', '/'), 'base64'))
    : undefined
}
