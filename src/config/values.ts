/** Parsers for the values of options. Each returns undefined for a text that it does not accept. */
import { existsSync, readdirSync } from 'node:fs'
import { join, resolve, sep } from 'node:path'
import { SvcError } from '../model/error.ts'
import { attempt } from '../platform/fields.ts'
import { findSameName, hasUnicodeForms } from '../platform/files.ts'
import { findHomeFolder } from '../platform/process.ts'

/** The pace of sending: `perSecond` in each session, `perWindow` to one user within any `windowMs`. */
export interface Pace {
  readonly perSecond: number
  readonly perWindow: number
  readonly windowMs: number
}

/** Makes a parser for decimal digits, from `least` to `most`. */
export function createWholeParser(least: number, most: number) {
  return (text: string): number | undefined => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    return value >= least && value <= most ? value : undefined
  }
}

/** Parses a switch: 1, true, yes, on; 0, false, no, off. */
export function parseSwitch(text: string): boolean | undefined {
  if (/^(1|true|yes|on)$/i.test(text)) return true
  return /^(0|false|no|off)$/i.test(text) ? false : undefined
}

/**
 * Returns an absolute path. Expands `~`, which a shell does in an argument, but not in a unit file or a
 * compose file.
 */
export function parseFolder(text: string): string | undefined {
  if (text === '' || text.includes('\0')) return undefined
  return toDiskFormSync(resolve(/^~(?=$|[\\/])/.test(text) ? join(requireHomeFolder(), text.slice(1)) : text))
}

/** @throws SvcError `not_found` for a user without a home folder */
export function requireHomeFolder(): string {
  try {
    return findHomeFolder()
  } catch (cause) {
    const hint = 'Set HOME, or name the data directory with --base-path.'
    throw new SvcError('not_found', 'this user has no home folder: HOME is not set', { hint, cause })
  }
}

/**
 * Does the same as `toDiskForm` of the platform, but synchronously, because options are read before any wait is
 * possible.
 */
function toDiskFormSync(path: string): string {
  let [at = '', ...names] = path.split(sep)
  for (const name of names) {
    const folder = `${at}${sep}`
    at = folder + name
    if (hasUnicodeForms(name) && !existsSync(at))
      at = folder + findSameName(attempt(() => readdirSync(folder)) ?? [], name, 'path')
  }
  return at
}

/** Parses the name of a consumer of `recv`. */
export const parseConsumerName = (text: string): string | undefined =>
  /^[A-Za-z0-9._-]{1,64}$/.test(text) ? text : undefined

/** Parses a token. Printable ASCII is what a header can carry. */
export const parseToken = (text: string): string | undefined =>
  /^[!-~]{1,512}$/.test(text) ? text : undefined

/** Parses a URL, and removes slashes at its end. */
export function parseHttpUrl(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined
  const { protocol, host, pathname, username, password, search, hash } = new URL(text)
  if (username || password || search || hash) return undefined
  return `${protocol}//${host}${pathname.replace(/\/+$/, '')}`
}

/** Parses the URL of this service. Its path must be one below which a proxy can serve it. */
export function parsePublicUrl(text: string): string | undefined {
  const url = parseHttpUrl(text)
  return url !== undefined && parsePrefix(new URL(url).pathname) === undefined ? undefined : url
}

/** Characters that need no escaping in a cookie, a header or a page. Others must be percent-encoded UTF-8. */
const prefixForm = /^(\/(?!\.{1,2}(\/|$))([\w.~:@+-]|%[89a-f][\da-f])+)+$/i

/** Parses the path below which a proxy serves svc, without a slash at its end. '' is the root. */
export function parsePrefix(text: string): string | undefined {
  const path = text.replace(/\/$/, '')
  return path === '' || (path.length <= 200 && prefixForm.test(path)) ? path : undefined
}

/** Parses https URLs separated by commas. */
export function parseHttpsUrls(text: string): string[] | undefined {
  const list = text.split(',').filter(part => part.trim() !== '')
  const urls = list.map(part => parseHttpUrl(part.trim()))
  return urls.every(url => url?.startsWith('https:')) ? (urls as string[]) : undefined
}

/** Parses a list separated by commas; lower case, without duplicates. */
function parseList(text: string, isOne: (part: string) => boolean): string[] | undefined {
  const list = text
    .split(',')
    .map(part => part.trim().toLowerCase())
    .filter(part => part !== '')
  return list.every(isOne) ? [...new Set(list)] : undefined
}

/** Parses hosts separated by commas; lower case, without duplicates. */
export const parseHosts = (text: string): string[] | undefined =>
  parseList(text, host => /^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/.test(host))

/**
 * Parses IP addresses and ranges of them (`10.0.0.0/8`), separated by commas; lower case, without duplicates. A range of
 * all addresses is not accepted.
 */
export const parseRanges = (text: string): string[] | undefined => parseList(text, isRange)

function isRange(text: string): boolean {
  const [, address = '', bits] = /^([\da-f:.]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const isSix = address.includes(':')
  const isAddress = isSix
    ? URL.canParse(`http://[${address}]`)
    : /^[\d.]+$/.test(address) && URL.parse(`http://${address}`)?.hostname === address
  return isAddress && (bits === undefined || (Number(bits) >= 1 && Number(bits) <= (isSix ? 128 : 32)))
}

/** Parses names separated by commas, without duplicates; or `read-only`. */
export function parseNames(text: string): readonly string[] | 'read-only' | undefined {
  if (text === 'read-only') return text
  const list = text.split(',').map(name => name.trim())
  return list.every(name => /^[a-z_]{1,32}$/.test(name)) ? [...new Set(list)] : undefined
}

const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 }

/**
 * Parses a pace. `1/s` is for a session, `10/5m` (any period but one second) for a user. A missing part is
 * unlimited.
 */
export function parsePace(text: string): Pace | 'off' | undefined {
  if (/^off$/i.test(text)) return 'off'
  const parsed: { -readonly [Key in keyof Pace]?: number } = {}
  for (const part of text.split(',')) {
    const [, count, every = '1', unit = ''] = /^\s*(\d+(?:\.\d+)?)\/(\d+)?([smh])\s*$/i.exec(part) ?? []
    const ms = Number(every) * (unitMs[unit.toLowerCase()] ?? 0)
    if (!(Number(count) > 0 && ms > 0)) return undefined
    if (ms === 1000 && parsed.perSecond === undefined) parsed.perSecond = Number(count)
    else if (parsed.perWindow === undefined && Number.isInteger(Number(count))) {
      parsed.perWindow = Number(count)
      parsed.windowMs = ms
    } else return undefined
  }
  const {
    perSecond = Number.POSITIVE_INFINITY,
    perWindow = Number.POSITIVE_INFINITY,
    windowMs = 1000,
  } = parsed
  return Object.freeze({ perSecond, perWindow, windowMs })
}

/** Parses a size in bytes, with a unit such as `k`, `MB`, `GiB`. */
export function parseSize(text: string): number | undefined {
  const [, number = '', prefix = '', binary = ''] =
    /^(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?$/i.exec(text) ?? []
  if (number === '' || (binary && !prefix)) return undefined
  const power = ' kmgt'.indexOf(prefix.toLowerCase() || ' ')
  const bytes = Math.floor(Number(number) * (binary ? 1024 : 1000) ** power)
  return bytes > 0 && Number.isSafeInteger(bytes) ? bytes : undefined
}

const intervalUnits = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const longestIntervalMs = 365 * intervalUnits.d

/** Parses the time between backups, such as `12h`. @returns milliseconds */
export function parseBackupInterval(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text.trim().toLowerCase()) ?? []
  const ms = Number(count) * intervalUnits[unit as keyof typeof intervalUnits]
  return ms > 0 && ms <= longestIntervalMs ? ms : undefined
}
