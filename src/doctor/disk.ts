/** The disk: room for what comes in, and a file system that locks and SQLite can trust. */
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import process from 'node:process'
import { fileExists } from '../platform/files.ts'
import { byteSize } from '../platform/format.ts'
import type { DoctorContext } from './context.ts'
import { bad, type Found, ok, warning } from './finding.ts'

/** Half of what the store's -wal file may grow to (journal_size_limit). */
const needed = 32 * 1024 * 1024

/** Looks at the disk of the data directory. */
export async function examineDisk({ config, directory }: DoctorContext): Promise<Found[]> {
  let dir = directory.dir
  while (dir !== dirname(dir) && !(await fileExists(dir).catch(() => false))) dir = dirname(dir)
  const disk = await statfs(dir)
  const free = disk.bavail * disk.bsize
  const what = `${byteSize(free)} free for the data directory`
  const fix =
    'Free some space: remove old files, or keep fewer messages (--store-max-count, --store-max-age-days).'
  const room =
    free < needed
      ? bad('space', `${what}: messages can soon no longer be stored`, fix)
      : free < config.keepFreeBytes
        ? warning(
            'space',
            `${what}: below --keep-free, uploads and downloads are refused; messages are still stored`,
            fix,
          )
        : ok('space', what)
  return [room, ...kindOf(Number(disk.type) >>> 0)]
}

/** Linux's magic numbers of file systems that are not a disk of this machine: NFS, SMB, CIFS, SMB 2, Ceph, 9p, VirtualBox. */
const networked = [0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x00c36400, 0x01021997, 0x786f4256]

function kindOf(type: number): Found[] {
  if (process.platform !== 'linux' || !networked.includes(type)) return []
  return [
    warning(
      'filesystem',
      "the data directory lies on a network share: locks and SQLite's log are not safe there, least of all from two machines",
      'Move it to a disk of this machine, and name it with --base-path.',
    ),
  ]
}
