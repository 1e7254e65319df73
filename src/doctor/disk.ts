/** The disk: room for what comes in, and a file system that locks and SQLite can trust. */
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import process from 'node:process'
import { statOf } from '../platform/files.ts'
import type { StoreSight } from '../store/look.ts'
import { bad, type Found, note, ok, warning } from './finding.ts'
import type { Patient } from './patient.ts'
import { bytes, troubleOf } from './words.ts'

/** The store's -wal file is allowed to grow this large (journal_size_limit), before anything is gained by it. */
const walBytes = 64 * 1024 * 1024
const inodes = { few: 1000, scarce: 50 }

/** Looks at the disks of the data directory and of the media root. */
export async function examineDisk(
  { config, place }: Patient,
  store: StoreSight | undefined,
): Promise<Found[]> {
  const dir = await existing(place.dir)
  const media = await existing(config.mediaRoot)
  const found = await roomOf(dir, 'the data directory', store, config.keepFreeBytes)
  const same =
    (await statOf(media).catch(() => undefined))?.dev === (await statOf(dir).catch(() => undefined))?.dev
  found.push(
    ...(await uploadRoom(media, config.maxUploadBytes, same ? 'the disk' : 'the disk of the media root')),
  )
  return found
}

async function roomOf(
  dir: string,
  whose: string,
  store: StoreSight | undefined,
  keepFree: number,
): Promise<Found[]> {
  let disk: Awaited<ReturnType<typeof statfs>>
  try {
    disk = await statfs(dir)
  } catch (error) {
    return [
      bad('space', `the disk of ${whose} cannot be asked: ${troubleOf(error)}`, 'Look at the system log.'),
    ]
  }
  const free = disk.bavail * disk.bsize
  // What is left of the -wal's allowance, and as much again for the pages it is written back to.
  const needed = walBytes + Math.max(0, walBytes - (store?.walBytes ?? 0))
  const makeRoom =
    'Free some space: remove old files, or keep fewer messages (--store-max-count, --store-max-age-days).'
  const found: Found[] = [
    free < needed / 4
      ? bad('space', `${bytes(free)} free for ${whose}: messages can soon no longer be stored`, makeRoom)
      : free < keepFree
        ? warning(
            'space',
            `${bytes(free)} free for ${whose}: below ${bytes(keepFree)} (--keep-free), uploads and downloads are refused; messages are still stored`,
            makeRoom,
          )
        : free < needed * 2
          ? warning(
              'space',
              `${bytes(free)} free for ${whose}; the store alone may need ${bytes(needed)} in a busy hour`,
              makeRoom,
            )
          : ok('space', `${bytes(free)} free for ${whose}`),
  ]
  // File systems that make inodes as they need them say 0.
  if (disk.files > 0 && disk.ffree < inodes.few) {
    const what = `${disk.ffree} files can still be made on the disk of ${whose}`
    const fix = 'Remove small files that are no longer needed: df -i shows where.'
    found.push(disk.ffree < inodes.scarce ? bad('inodes', what, fix) : warning('inodes', what, fix))
  }
  found.push(...kindOf(Number(disk.type)))
  return found
}

async function uploadRoom(dir: string, largest: number, where: string): Promise<Found[]> {
  const disk = await statfs(dir).catch(() => undefined)
  if (!disk || disk.bavail * disk.bsize >= largest) return []
  return [
    note(
      'uploads',
      `${where} has no room for the largest upload that is allowed (${bytes(largest)})`,
      'Free some space, or lower --max-upload.',
    ),
  ]
}

/** Linux's magic numbers of file systems that are not a disk of this machine. */
const networked: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0x00c36400, 'Ceph'],
  [0x01021997, '9p'],
  [0x786f4256, 'a VirtualBox share'],
])
const inMemory = 0x01021994

function kindOf(type: number): Found[] {
  if (process.platform !== 'linux') return []
  const name = networked.get(type >>> 0)
  if (name !== undefined) {
    return [
      warning(
        'filesystem',
        `the data directory lies on ${name}: locks and SQLite's log are not safe there, least of all from two machines`,
        'Move it to a disk of this machine, and name it with --base-path.',
      ),
    ]
  }
  if (type >>> 0 === inMemory) {
    return [
      note(
        'filesystem',
        'the data directory lies in memory (tmpfs): logins and messages are gone after a restart of the machine',
        'Choose a folder on a disk with --base-path.',
      ),
    ]
  }
  return []
}

/** The folder, or the nearest one above it that is there. */
async function existing(path: string): Promise<string> {
  let at = path
  while (at !== dirname(at) && !(await statOf(at).catch(() => undefined))) at = dirname(at)
  return at
}
