/**
 * The JSON of Apprise (`json://`), version 1, and what callers of its API send to `/notify/<key>`.
 *
 * @see https://appriseit.com/services/json/
 * @see https://github.com/caronc/apprise-api#api-details
 * @see https://github.com/caronc/apprise/blob/master/apprise/plugins/custom_json.py
 */
import { Buffer } from 'node:buffer'
import type { Priority } from '../../model/topic.ts'
import type { SentNotice } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import { textAt } from './sent-notice.ts'

const priorityOfType: Readonly<Record<string, Priority>> = {
  info: 'default',
  success: 'default',
  warning: 'default',
  failure: 'high',
}

/** Returns the notices of a body, one for each file; undefined if it has another form. */
export function readApprise(json: Readonly<Record<string, unknown>>): SentNotice[] | undefined {
  const { attachments = [], body, message, type, version } = json
  const isApprise = typeof (version ?? body) === 'string' && typeof message === 'string'
  const isTyped = typeof type === 'string' && Object.hasOwn(priorityOfType, type)
  if (!isApprise || !isTyped || !Array.isArray(attachments)) return undefined
  const priority = priorityOfType[type]!
  const files = attachments.filter(isObject).map(file => ({
    name: textAt(file, 'filename') || undefined,
    bytes: Buffer.from(textAt(file, 'base64'), 'base64'),
  }))
  const [file, ...others] = files
  const first = {
    title: textAt(json, 'title'),
    text: message,
    priority,
    ...(type !== 'info' && { tags: [type] }),
    ...(file && { file }),
  }
  return [first, ...others.map(other => ({ text: '', priority, file: other }))]
}
