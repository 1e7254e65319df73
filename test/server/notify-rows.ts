/** What a person reads of a body that a program sent. */

import { expect, test } from 'bun:test'
import type { SentNotice } from '../../src/operations/notices.ts'
import { parseLossless } from '../../src/platform/lossless.ts'
import { readBodyForm } from '../../src/server/notify/form.ts'
import { readNotices } from '../../src/server/notify/read.ts'

export interface Row {
  body: unknown
  headers?: Record<string, string>
  query?: Record<string, string>
  has: readonly string[]
  hasNot?: readonly string[]
  /** Further fields of the notice. */
  notice?: object
}

export interface ProgramRow extends Row {
  /** How its text begins. */
  head?: string
}

/** Each body is one notice, which a person can read. */
export const testPrograms = (rows: Readonly<Record<string, ProgramRow>>): void =>
  test.each(Object.entries(rows))('%s', async (_, { has, hasNot = [], head = '', notice = {}, ...sent }) => {
    const [first, ...others] = await read(sent)
    expect(others).toEqual([])
    expect(first).toMatchObject(notice)
    expect(first!.text.slice(0, head.length)).toBe(head)
    for (const part of has) expect(first!.text).toContain(part)
    for (const part of hasNot) expect(first!.text).not.toContain(part)
    expect(first!.text.split('\n').length).toBeLessThanOrEqual(33)
  })

/** Returns the notices of a body: JSON, unless it is a text or bytes. */
export async function read({
  body,
  headers = {},
  query = {},
}: Pick<Row, 'body' | 'headers' | 'query'>): Promise<readonly SentNotice[]> {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array
  const bytes = new Uint8Array(Buffer.from(isRaw ? (body as string) : JSON.stringify(body)))
  const sources = {
    headers: new Headers(isRaw ? headers : { 'content-type': 'application/json', ...headers }),
    query,
  }
  return readNotices(sources, await readBodyForm(sources, bytes, parseLossless), {}).notices
}
