/** What is said of any port of svc: that something else is there, and who can reach it. */
import { networkInterfaces } from 'node:os'
import { apiFetch } from '../platform/fetch.ts'
import { bad, type Found, note, ok } from './finding.ts'
import { addressOf, type Listener } from './healthz.ts'
import type { Patient } from './patient.ts'
import { connectsTo } from './reach.ts'

/**
 * What listens at `url` and is not what was looked for.
 *
 * @param advice `wrong`: for a service that runs elsewhere; `free`: for one that is to start
 */
export function noService(
  check: string,
  { polling }: Patient,
  url: string,
  answer: Exclude<Listener<unknown>, { kind: 'svc' | 'nobody' }>,
  advice: { wrong: string; free: string },
): Found {
  switch (answer.kind) {
    case 'silent':
      return bad(
        check,
        `something on ${url} takes connections and does not answer`,
        polling?.pid === undefined ? advice.wrong : `If that is svc, it hangs: kill ${polling.pid}`,
      )
    case 'stranger':
      return polling?.held
        ? note(check, `another program listens on ${url}`, advice.wrong)
        : bad(check, `another program listens on ${url}: svc cannot start there`, advice.free)
    default:
      return bad(
        check,
        `${url} is no address of this machine, or is closed off (${answer.code})`,
        'Choose another with --host: 127.0.0.1 for this machine alone, 0.0.0.0 for everybody.',
      )
  }
}

export interface Door {
  /** Of the finding. */
  check: string
  /** As the finding calls it. */
  what: string
  port: number
  /** What nobody may have without a token, where others can ask. */
  path: string
  deadlineMs: number
  /** Whether it is what answers at this address. */
  isOurs(url: string): Promise<boolean>
}

/** Whether the door answers under the addresses by which other machines see this one, and to whom. */
export async function openDoor({ check, what, port, path, deadlineMs, isOurs }: Door): Promise<Found[]> {
  const addresses = Object.values(networkInterfaces())
    .flatMap(list => list ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
    .map(({ address }) => address)
    .slice(0, 4)
  const open = (
    await Promise.all(
      addresses.map(async address => {
        if (!(await connectsTo(address, port, Math.min(deadlineMs, 1000)))) return undefined
        const url = addressOf(address, port)
        return (await isOurs(url)) ? url : undefined
      }),
    )
  ).find(url => url !== undefined)
  if (open === undefined) return [ok(check, `only this machine can reach ${what}`)]
  const status = await apiFetch(`${open}${path}`, { timeoutMs: deadlineMs }).then(
    async response => {
      await response.body?.cancel()
      return response.status
    },
    () => 0,
  )
  if (status !== 401) {
    return [
      bad(
        check,
        `other machines can reach ${what} on ${open}, and it asks for no token`,
        'Start it with --host 127.0.0.1, or with SVC_TOKEN set.',
      ),
    ]
  }
  return [
    note(
      check,
      `other machines can reach ${what} on ${open}; it asks for the token, and token and messages travel unencrypted`,
      'Put a proxy with TLS in front, or start svc with --host 127.0.0.1.',
    ),
  ]
}
