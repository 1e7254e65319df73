/** The sandbox's own store, the memory of the pretend WeChat: whether it is whole, and of our form. Looks only. */

import { join } from 'node:path'
import { errorCodeOf, fileExists } from '../platform/files.ts'
import { shellWord } from '../platform/shell.ts'
import { openDatabase } from '../platform/sqlite.ts'
import { isNewerWorld } from '../sandbox/persistence.ts'
import { bad, type Found, ok, warning } from './finding.ts'
import type { Place } from './place.ts'
import { newerFix, svcCommand, troubleOf } from './words.ts'

const what = 'the sandbox’s world.db'
const busyMs = 2000

/** Judges the world of a directory that is the sandbox's; says nothing where there is none. */
export async function examineWorld({ dir, isSandbox }: Place): Promise<Found[]> {
  const path = join(dir, 'sandbox', 'world.db')
  if (!isSandbox || !(await fileExists(path))) return []
  if (await isNewerWorld(join(dir, 'sandbox')))
    return [bad('world', `${what} was written by a newer version of svc`, newerFix)]
  try {
    const damage = await damageIn(path)
    return [damage === undefined ? ok('world', `${what} is whole`) : damaged(dir, path, damage)]
  } catch (error) {
    if (/^SQLITE_(BUSY|LOCKED)/.test(errorCodeOf(error) ?? ''))
      return [
        warning(
          'world',
          `${what} is being written to and could not be looked at`,
          `${svcCommand('doctor', dir)} again in a moment; if it lasts, look for a process that hangs.`,
        ),
      ]
    const files = `${shellWord(path)}*`
    return [
      bad(
        'world',
        `${what} cannot be read: ${troubleOf(error)}`,
        `sudo chown "$(id -un)" ${files} && chmod 600 ${files}`,
      ),
    ]
  }
}

function damaged(dir: string, path: string, damage: string): Found {
  const aside = shellWord(`${dir}-damaged`)
  return bad(
    'world',
    `${what} is damaged: ${damage}`,
    `Stop svc, then: mkdir -p ${aside} && mv ${shellWord(path)}* ${aside}/ (a new pretend WeChat begins, in which the sessions log in anew; received messages are kept)`,
  )
}

/** The first thing wrong in it; undefined for one that is whole. */
async function damageIn(path: string): Promise<string | undefined> {
  const isOpen = () => fileExists(`${path}-wal`)
  // Without a -wal file nobody has it open. An ordinary reader would make one.
  if (!(await isOpen())) {
    const damage = await firstDamage(path, { immutable: true })
    // Somebody may have opened it meanwhile; then what was read is not to be trusted.
    if (damage === undefined || !(await isOpen())) return damage
  }
  return firstDamage(path, { readonly: true })
}

async function firstDamage(
  path: string,
  how: { readonly?: boolean; immutable?: boolean },
): Promise<string | undefined> {
  try {
    const db = await openDatabase(path, how)
    try {
      db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      const said = String(Object.values(db.prepare('PRAGMA quick_check(1)').get() ?? {})[0])
      return said === 'ok' ? undefined : said.split('\n').find(line => line.trim() !== '')
    } finally {
      db.close()
    }
  } catch (error) {
    // Pages so broken that the check itself cannot go on.
    const code = errorCodeOf(error) ?? ''
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return code
    throw error
  }
}
