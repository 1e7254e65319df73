/**
 * A root directory run as a container engine would, without one: process 1 of its own, an ordinary user without any
 * capability, a root that cannot be written to but for /data, and nothing of the machine but /proc. For root on Linux.
 */
import { canMount } from '../faults/support/mounts.ts'

const tools = ['unshare', 'nsenter', 'setpriv', 'env', 'sh'].map(name => Bun.which(name))

/** Whether this machine lets us. */
export const canContain: boolean = canMount && !tools.includes(null)

export interface Container {
  /** Its root directory; holds `proc` and `data`, to mount on. */
  root: string
  /** Mounted on /data. */
  data: string
  /** All of the environment. */
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
 * How to start a program as its process 1. All that is mounted goes with that one. It outlives the process that is
 * started here, since it changes its user: to end it, end its whole family.
 */
export function startIn({ root, data, env, user }: Container, program: readonly string[]): string[] {
  const [unshare, , setpriv] = tools as string[]
  return [
    ...[unshare!, '--mount', '--pid', '--fork', 'sh', '-c', mounted, 'sh', root, data],
    ...[setpriv!, '--no-new-privs', ...only(env)],
    ...[unshare!, `--root=${root}`, '--wd=/data', `--setgid=${user}`, `--setuid=${user}`, ...program],
  ]
}

/** How to run another program in it, beside process 1, which is `pid` out here. */
export function runIn({ env, user }: Container, pid: number, program: readonly string[]): string[] {
  const [, nsenter] = tools as string[]
  return [
    ...[...only(env), nsenter!, `--target=${pid}`, '--mount', '--pid', '--root', '--wd'],
    ...[`--setgid=${user}`, `--setuid=${user}`, ...program],
  ]
}

/** No variable but these. */
const only = (env: Container['env']) => [
  ...[tools[3]!, '-i'],
  ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
]
