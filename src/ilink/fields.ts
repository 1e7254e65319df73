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

const yearMs = 365 * 24 * 60 * 60_000

/**
 * Reads a time that is within a year of `near`, stated in milliseconds or in seconds. Any other time is a mistake
 * of the sender, and would sort a message before or behind all others.
 *
 * @param near Unix ms, as the result
 */
export function timeOf(value: unknown, near: number): number | undefined {
  const stated = typeof value === 'string' ? Number(value) : value
  if (typeof stated !== 'number' || !(stated > 0)) return undefined
  return [stated, stated * 1000].map(Math.round).find(time => Math.abs(time - near) <= yearMs)
}

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
