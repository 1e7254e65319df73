/** Checks this machine: the program and its runtime, the clock, and the disk of the data directory. */

import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import process from 'node:process'
import { type Found, finding } from '../inspect/finding.ts'
import { fileExists } from '../platform/files.ts'
import { formatBytes, formatDuration } from '../platform/format.ts'
import { freeBytes } from '../platform/free-space.ts'
import { isBundle } from '../platform/packed.ts'
import { isCompiled } from '../platform/process.ts'
import type { DoctorContext } from './finding.ts'
import type { ServerAnswer } from './network.ts'

/** Returns how svc was installed. The npm package holds the sources as JavaScript. */
function programForm(): string {
  if (isCompiled) return 'the binary'
  if (isBundle) return 'the script for Deno'
  return import.meta.url.endsWith('.ts') ? 'from source' : 'the npm package'
}

/** Describes this program, and warns of unknown environment variables. */
export function examineRuntime({ unknownVariables = [], version }: DoctorContext): Found {
  const { bun, deno } = process.versions
  const runtime = deno ? `Deno ${deno}` : bun ? `Bun ${bun}` : `Node ${process.version}`
  return [
    finding.ok(
      'version',
      `svc ${version}, ${programForm()} on ${runtime}, ${process.platform} ${process.arch}`,
    ),
    unknownVariables.map(name =>
      finding.warning(
        'environment',
        `the environment variable ${name} is unknown and has no effect`,
        'Correct its name, or remove it. svc openapi --help lists the names.',
      ),
    ),
  ]
}

/** Limits of the clock's difference. WeChat's Date header has whole seconds, and answers take time. */
const skew = { warnMs: 60_000, badMs: 60 * 60_000 }

const setClock: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
  linux: 'sudo timedatectl set-ntp true',
  darwin: 'sudo sntp -sS time.apple.com',
  win32: 'w32tm /resync',
}
const clockFix = setClock[process.platform] ?? 'Set the clock of this machine.'

/** Compares this machine's clock with WeChat's. */
export function examineClock({ directory }: DoctorContext, upstream: ServerAnswer | undefined): Found {
  // The sandbox has its own clock, which its phone can move.
  if (directory.isSandbox || upstream?.date === undefined) return undefined
  const off = upstream.localAt - upstream.date
  const size = Math.abs(off) - upstream.tookMs / 2
  if (size < skew.warnMs) return finding.ok('upstream', 'this clock agrees with upstream’s')
  const what = `this clock is ${formatDuration(off)} ${off > 0 ? 'ahead of' : 'behind'} upstream’s`
  return size < skew.badMs
    ? finding.warning('upstream', what, clockFix)
    : finding.error('upstream', `${what}: svc computes answer windows wrongly`, clockFix)
}

/** Least free space in bytes: half the size limit of the store's -wal file (journal_size_limit). */
const minFreeBytes = 32 * 1024 * 1024

/** Checks the disk of the data directory. */
export async function examineDisk({ config, directory }: DoctorContext): Promise<Found> {
  let dir = directory.dir
  while (dir !== dirname(dir) && !(await fileExists(dir).catch(() => false))) dir = dirname(dir)
  const free = await freeBytes(dir)
  const isKnown = free < Number.POSITIVE_INFINITY
  const what = isKnown ? `${formatBytes(free)} free for the data directory` : 'the free space is not known'
  const fix =
    'Free some space: remove old files, or keep fewer messages (--store-max-count, --store-max-age-days).'
  const space =
    free < minFreeBytes
      ? finding.error('space', `${what}: soon svc cannot store messages any more`, fix)
      : free < config.keepFreeBytes
        ? finding.warning(
            'space',
            `${what}: below --keep-free, uploads and downloads are rejected; messages are still stored`,
            fix,
          )
        : finding.ok('space', what)
  return [space, checkFileSystem(Number((await statfs(dir)).type) >>> 0)]
}

/**
 * File-system types of Linux (magic numbers of statfs) that are network shares: NFS, SMB, CIFS, SMB 2,
 * Ceph, 9p, VirtualBox.
 */
const networkFileSystems = [0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x00c36400, 0x01021997, 0x786f4256]

function checkFileSystem(type: number): Found {
  if (process.platform !== 'linux' || !networkFileSystems.includes(type)) return undefined
  return finding.warning(
    'filesystem',
    "the data directory lies on a network share: locks and SQLite's log are not safe there, above all with two machines",
    'Move it to a disk of this machine, and set --base-path.',
  )
}
