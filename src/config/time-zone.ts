/**
 * The time zone of this machine. Runtimes read TZ only as a name such as Asia/Shanghai, and take UTC for all else; the C
 * library, and with it `date`, also reads offsets (`CST-8`, `<+08>-8`) and paths of zoneinfo. So they are read here.
 */
import { readlinkSync } from 'node:fs'
import { getEnvironment } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { clockIn } from '../model/time-rule.ts'
import { attempt } from '../platform/fields.ts'

/** A name and an offset; behind it stands what summer time is called, and when it is. */
const offsetForm = /^(<[-+A-Za-z\d]{3,}>|[A-Za-z]{3,})?([-+]?)(\d{1,2})(?::?(\d{2}))?(?::00)?(.*)$/

/** Returns the name of a zone by which the runtime knows it; undefined if it knows none. */
export function canonicalOf(name: string): string | undefined {
  // It knows offsets too, but not in TZ.
  if (!/^[A-Za-z]/.test(name)) return undefined
  return attempt(() => new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone)
}

/** Returns the name in the path of a file of zoneinfo, also behind a link. */
function nameInPath(path: string): string | undefined {
  const found = /\/zoneinfo\/(?:posix\/|right\/)?(.+)$/.exec(path)?.[1]
  if (found !== undefined || !path.startsWith('/')) return found
  return attempt(() => nameInPath(readlinkSync(path)))
}

/** Returns a zone with these minutes ahead of UTC in January and in July. */
function findZone(january: number, july: number): string | undefined {
  const year = new Date().getUTCFullYear()
  const isAhead = (timeZone: string, month: number, minutes: number) => {
    const at = Date.UTC(year, month, 15)
    return clockIn(timeZone, at) === at + minutes * 60_000
  }
  return Intl.supportedValuesOf('timeZone').find(one => isAhead(one, 0, january) && isAhead(one, 6, july))
}

/**
 * Returns the name of the zone that TZ means.
 *
 * @param text the value of TZ; undefined: the zone of the system
 * @returns `hint` in its place: the zone to write, of a text that cannot be read
 */
export function readTimeZone(text: string | undefined): { zone: string | undefined } | { hint: string } {
  const own = text?.replace(/^:/, '')
  if (own === undefined) return { zone: undefined }
  if (own === '') return { zone: 'UTC' }
  const named = canonicalOf(own.includes('/zoneinfo/') || own.startsWith('/') ? (nameInPath(own) ?? '') : own)
  if (named !== undefined) return { zone: named }
  const found = offsetForm.exec(own)
  if (!found) return { hint: 'Asia/Shanghai' }
  const [, name, sign, hours, minutes = 0, summer = ''] = found
  // Behind a name, an offset counts west of Greenwich.
  const isEast = name === undefined ? sign !== '-' : sign === '-'
  const offset = (isEast ? 1 : -1) * (Number(hours) * 60 + Number(minutes))
  const whole =
    summer === '' ? canonicalOf(`Etc/GMT${isEast ? '-' : '+'}${Math.abs(offset / 60)}`) : undefined
  if (name !== undefined && whole !== undefined) return { zone: whole }
  const [begins = 0, ends = 0] = [...summer.matchAll(/,M(\d+)/g)].map(([, month]) => Number(month))
  const later = summer === '' ? offset : offset + 60
  const [winter, inSummer] = begins > ends ? [later, offset] : [offset, later]
  return { hint: whole ?? findZone(winter, inSummer) ?? 'Asia/Shanghai' }
}

/**
 * Returns the zone of this machine; undefined: the one that the runtime has found. Code that reads or shows times of people
 * calls this first.
 *
 * @throws SvcError `invalid_arguments` if the environment names one that nobody knows
 */
export function localZone(): string | undefined {
  const { TZ } = getEnvironment()
  const read = readTimeZone(TZ)
  if ('zone' in read) return read.zone
  throw badArgument('TZ', `the time zone ${JSON.stringify(TZ)} of the environment cannot be read`, {
    hint: `Set TZ to a name, such as TZ=${read.hint}.`,
  })
}

/** Same, by its name. */
export const machineZone = (): string => localZone() ?? new Intl.DateTimeFormat().resolvedOptions().timeZone

/** Lets the runtime know the zone that TZ means, if it can be read. Programs that svc starts get it too. */
export function adoptTimeZone(): void {
  const { TZ } = getEnvironment()
  const read = readTimeZone(TZ)
  if (TZ !== undefined && 'zone' in read && read.zone !== undefined && read.zone !== TZ)
    Object.assign(getEnvironment(), { TZ: read.zone })
}
