/**
 * Runs a program in a root directory as a container engine would, but without one: it is process 1, an
 * ordinary user without capabilities, on a read-only root except for /data, and sees nothing of the machine
 * except /proc. Needs root on Linux.
 */
import { canMount } from '../faults/support/mounts.ts'

const tools = ['unshare', 'nsenter', 'setpriv', 'env', 'sh'].map(name => Bun.which(name))

/** True if this machine allows it. */
export const canContain: boolean = canMount && !tools.includes(null)

export interface Container {
  /** Its root directory; contains the mount points `proc` and `data`. */
  root: string
  /** Folder to mount on /data. */
  data: string
  /** The whole environment. */
  env: Readonly<Record<string, string>>
  user: number
}

const mounted = `set -e
root=$1 data=$2; shift 2
mount --bind "$root" "$root"
mount --bind "$data" "$root/data"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
exec "$@"`

/**
 * Returns the command that starts a program as process 1 of the container. All mounts disappear with that
 * process. It outlives the process started here, since it changes its user: to end it, end the whole
 * process tree.
 */
export function startIn({ root, data, env, user }: Container, program: readonly string[]): string[] {
  const [unshare, , setpriv] = tools as string[]
  return [
    ...[unshare!, '--mount', '--pid', '--fork', 'sh', '-c', mounted, 'sh', root, data],
    ...[setpriv!, '--no-new-privs', ...only(env)],
    ...[unshare!, `--root=${root}`, '--wd=/data', `--setgid=${user}`, `--setuid=${user}`, ...program],
  ]
}

/**
 * Returns the command that runs another program in the container, beside process 1, which has the id `pid`
 * outside.
 */
export function runIn({ env, user }: Container, pid: number, program: readonly string[]): string[] {
  const [, nsenter] = tools as string[]
  return [
    ...[...only(env), nsenter!, `--target=${pid}`, '--mount', '--pid', '--root', '--wd'],
    ...[`--setgid=${user}`, `--setuid=${user}`, ...program],
  ]
}

/** Sets exactly these variables. */
const only = (env: Container['env']) => [
  tools[3]!,
  '-i',
  ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
]
