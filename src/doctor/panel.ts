/** The admin panel's door, where `--admin-port` names one. */
import { type Found, note, ok, warning } from './finding.ts'
import { addressOf, ask } from './healthz.ts'
import { noService, openDoor } from './listener.ts'
import type { Patient } from './patient.ts'
import { adviceElsewhere, askHealthOf } from './whose.ts'
import { svcCommand } from './words.ts'

/** Looks at the panel's port; at nothing without one. */
export async function examinePanel(patient: Patient, deadlineMs: number): Promise<Found[]> {
  const { config, place, polling, version } = patient
  const { host, adminPort: port } = config
  if (!port) return []
  const url = addressOf(host, port)
  const answer = await askPanel(url, deadlineMs)
  if (answer.kind === 'nobody') {
    return [
      polling?.held
        ? note(
            'panel',
            `no panel listens on ${url}, though a process polls`,
            `If it has another port, give doctor the same --admin-port. Beside it: ${svcCommand(`admin --admin-port ${port}`, place.dir, place.isSandbox)}`,
          )
        : ok('panel', `port ${port} is free for the panel`),
    ]
  }
  if (answer.kind !== 'svc') {
    const free = svcCommand('admin --admin-port 0', place.dir, place.isSandbox)
    const wrong = `Give doctor the --admin-port of the panel; a free one for it: ${free}`
    return [noService('panel', patient, url, answer, { wrong, free })]
  }
  const says = `the panel of svc ${answer.seen.version} answers on ${url}`
  const { isElsewhere } = await askHealthOf(place.dir, url, deadlineMs)
  const listener = isElsewhere
    ? note(
        'panel',
        `${says}, for another data directory`,
        await adviceElsewhere(url, deadlineMs, config.sandbox),
      )
    : answer.seen.version === version
      ? ok('panel', says)
      : warning(
          'panel',
          `${says}; this is ${version}`,
          'Restart the service, so that both are of one version.',
        )
  const exposure = await openDoor({
    ...{ check: 'panel_exposure', what: 'the panel', port, path: '/api/status', deadlineMs },
    isOurs: async address => (await askPanel(address, deadlineMs)).kind === 'svc',
  })
  return [listener, ...exposure]
}

/** Its document is open to everybody, and says what it is of. */
const askPanel = (url: string, deadlineMs: number) =>
  ask(`${url}/openapi.json`, deadlineMs, (text): { version: string } | undefined => {
    try {
      const { info } = JSON.parse(text) as { info?: { title?: unknown; version?: unknown } }
      const isPanel = info?.title === 'svc admin panel' && typeof info.version === 'string'
      return isPanel ? { version: info.version as string } : undefined
    } catch {
      return undefined
    }
  })
