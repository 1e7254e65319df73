/** Readers for fields that may be missing, null or of another type. Each returns the value, or undefined. */
import type { MessageKind } from '../model/message.ts'
import { isObject } from '../platform/fields.ts'
import { itemType } from './wire.ts'

/** Reads an object with unknown fields; an array is not one. */
export const objectOf = (value: unknown): Record<string, unknown> | undefined =>
  isObject(value) ? value : undefined

export const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** Reads a string that is not empty. */
export const filledOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** Reads an upstream id as a string, from a string or a number. 0 and '' mean none. */
export function idOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '' || value === '0' ? undefined : value
  if (typeof value !== 'number' || !Number.isFinite(value) || value === 0) return undefined
  return Number.isInteger(value) ? BigInt(value).toString() : String(value)
}

/** Reads an integer that is not negative, also from a decimal string. */
export function countOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined
}

/** Reads Unix milliseconds; 0 means none. */
export const timeOf = (value: unknown): number | undefined => countOf(value) || undefined

const kindOfType: Record<number, MessageKind> = {
  [itemType.text]: 'TEXT',
  [itemType.image]: 'IMAGE',
  [itemType.voice]: 'VOICE',
  [itemType.file]: 'FILE',
  [itemType.video]: 'VIDEO',
}

/** The property that holds the payload of each kind. */
export const payloadOfKind = {
  TEXT: 'text_item',
  IMAGE: 'image_item',
  VOICE: 'voice_item',
  FILE: 'file_item',
  VIDEO: 'video_item',
} as const satisfies Partial<Record<MessageKind, string>>

/** Returns the kind of an item by its type. If the type is missing or 0, the payload decides. */
export function kindOfItem(item: Record<string, unknown>): MessageKind {
  const type = countOf(item.type)
  if (type) return kindOfType[type] ?? 'UNKNOWN'
  for (const [kind, payload] of Object.entries(payloadOfKind))
    if (objectOf(item[payload])) return kind as MessageKind
  return 'UNKNOWN'
}
