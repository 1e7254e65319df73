/** How the values of options are read: each gives undefined for what it does not understand. */
import { existsSync, readdirSync } from 'node:fs'
import { join, resolve, sep } from 'node:path'
import { hasForms, sameName } from '../platform/files.ts'
import { homeFolder } from '../platform/process.ts'

/** How fast one may send: per session `perSecond`, and to one user `perWindow` in any `windowMs`. */
export interface Pace {
  readonly perSecond: number
  readonly perWindow: number
  readonly windowMs: number
}

/** Decimal digits alone, from `least` to `most`. */
export function whole(least: number, most: number) {
  return (text: string): number | undefined => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    return value >= least && value <= most ? value : undefined
  }
}

/** 1, true, yes, on; 0, false, no, off. */
export function switched(text: string): boolean | undefined {
  if (/^(1|true|yes|on)$/i.test(text)) return true
  return /^(0|false|no|off)$/i.test(text) ? false : undefined
}

/** Absolute. A shell expands `~` in an argument, but not in a unit file or a compose file. */
export function folder(text: string): string | undefined {
  if (text === '' || text.includes('\0')) return undefined
  return foundOnDisk(resolve(/^~(?=$|[\\/])/.test(text) ? join(homeFolder(), text.slice(1)) : text))
}

/** As `onDisk` finds it, at once: options are read before anybody waits. */
function foundOnDisk(path: string): string {
  let [at = '', ...names] = path.split(sep)
  for (const name of names) {
    const folder = `${at}${sep}`
    at = folder + name
    if (hasForms(name) && !existsSync(at)) at = folder + sameName(namesIn(folder), name, 'path')
  }
  return at
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** The name of a reader, as `recv` takes it. */
export const consumerName = (text: string): string | undefined =>
  /^[A-Za-z0-9._-]{1,64}$/.test(text) ? text : undefined

/** Printable ASCII: what a header can carry. */
export const tokenIn = (text: string): string | undefined => (/^[!-~]{1,512}$/.test(text) ? text : undefined)

/** Without a slash at the end. */
export function httpUrl(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined
  const { protocol, host, pathname, username, password, search, hash } = new URL(text)
  if (username || password || search || hash) return undefined
  return `${protocol}//${host}${pathname.replace(/\/+$/, '')}`
}

/** The same of a service of ours: its path is one below which a proxy can serve it. */
export function publicUrl(text: string): string | undefined {
  const url = httpUrl(text)
  return url !== undefined && prefixIn(new URL(url).pathname) === undefined ? undefined : url
}

/** Letters that need no care in a cookie, a header or a page; other than ASCII ones in percents. */
const prefixForm = /^(\/(?!\.{1,2}(\/|$))([\w.~:@+-]|%[89a-f][\da-f])+)+$/i

/** The path below which a proxy serves svc, without a slash at its end: '' is the root. */
export function prefixIn(text: string): string | undefined {
  const path = text.replace(/\/$/, '')
  return path === '' || (path.length <= 200 && prefixForm.test(path)) ? path : undefined
}

/** Separated by commas; lower case, none twice. */
export function hosts(text: string): string[] | undefined {
  const list = text
    .split(',')
    .map(host => host.trim().toLowerCase())
    .filter(host => host !== '')
  return list.every(host => /^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?$/.test(host))
    ? [...new Set(list)]
    : undefined
}

/** Separated by commas, none twice; or `read-only`. */
export function names(text: string): readonly string[] | 'read-only' | undefined {
  if (text === 'read-only') return text
  const list = text.split(',').map(name => name.trim())
  return list.every(name => /^[a-z_]{1,32}$/.test(name)) ? [...new Set(list)] : undefined
}

const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 }

/** `1/s` is the pace of a session, `10/5m` (any time but one second) that to a user; what is absent is unlimited. */
export function pace(text: string): Pace | 'off' | undefined {
  if (/^off$/i.test(text)) return 'off'
  const read: { -readonly [Key in keyof Pace]?: number } = {}
  for (const part of text.split(',')) {
    const [, count, every = '1', unit = ''] = /^\s*(\d+(?:\.\d+)?)\/(\d+)?([smh])\s*$/i.exec(part) ?? []
    const ms = Number(every) * (unitMs[unit.toLowerCase()] ?? 0)
    if (!(Number(count) > 0 && ms > 0)) return undefined
    if (ms === 1000 && read.perSecond === undefined) read.perSecond = Number(count)
    else if (read.perWindow === undefined && Number.isInteger(Number(count))) {
      read.perWindow = Number(count)
      read.windowMs = ms
    } else return undefined
  }
  const { perSecond = Number.POSITIVE_INFINITY, perWindow = Number.POSITIVE_INFINITY, windowMs = 1000 } = read
  return Object.freeze({ perSecond, perWindow, windowMs })
}

/** Bytes; `k`, `MB`, `GiB` … */
export function size(text: string): number | undefined {
  const [, number = '', prefix = '', binary = ''] =
    /^(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(i?)b?$/i.exec(text) ?? []
  if (number === '' || (binary && !prefix)) return undefined
  const power = ' kmgt'.indexOf(prefix.toLowerCase() || ' ')
  const bytes = Math.floor(Number(number) * (binary ? 1024 : 1000) ** power)
  return bytes > 0 && Number.isSafeInteger(bytes) ? bytes : undefined
}
