/** The doors: what listens on the configured ports, who can reach it, and whether the token can be guessed or seen. */

import process from 'node:process'
import type { SvcError } from '../model/error.ts'
import { readText, statOf } from '../platform/files.ts'
import { processArguments } from '../platform/other-process.ts'
import { shellWord } from '../platform/shell.ts'
import { isExposed } from '../server/auth.ts'
import { givenToken, isGuessable, tokenPath } from '../server/token.ts'
import { bad, type Found, note, ok, warning } from './finding.ts'
import { addressIn, askHealth, type HealthAnswer } from './healthz.ts'
import { noService, openDoor } from './listener.ts'
import { examinePanel } from './panel.ts'
import type { Patient } from './patient.ts'
import { adviceElsewhere, askHealthOf } from './whose.ts'
import { svcCommand, troubleOf } from './words.ts'

const strong = 'export SVC_TOKEN="$(head -c 32 /dev/urandom | base64 | tr -d /+=)", and start svc anew'

/** Looks at the ports and at the token. */
export async function examineExposure(patient: Patient): Promise<Found[]> {
  const { config, deadlineMs } = patient
  const deadline = Math.min(deadlineMs, 2000)
  const found: Found[] = []
  if (config.port !== 0 || config.socket !== undefined) {
    const url = addressIn(config)
    const { answer, isElsewhere } = await askHealthOf(patient.place.dir, url, deadline)
    found.push(...(await listenerOf(patient, url, answer, isElsewhere)))
    if (answer.kind === 'svc' && !isElsewhere && config.socket === undefined) {
      const { poll_id } = answer.seen
      found.push(
        ...(await openDoor({
          ...{ check: 'exposure', what: 'the service', port: config.port, deadlineMs: deadline },
          path: '/tools',
          async isOurs(address) {
            const other = await askHealth(address, deadline)
            return other.kind === 'svc' && other.seen.poll_id === poll_id
          },
        })),
      )
    }
  }
  found.push(...(await examinePanel(patient, deadline)))
  return [...found, ...(await tokenOf(patient))]
}

async function listenerOf(
  patient: Patient,
  url: string,
  answer: HealthAnswer,
  isElsewhere: boolean,
): Promise<Found[]> {
  const { config, place, polling, version } = patient
  const deadline = Math.min(patient.deadlineMs, 2000)
  const { port } = config
  const other = {
    wrong: `Give doctor the --port of the service; a free one for it: ${svcCommand('openapi --port 0', place.dir, place.isSandbox)}`,
    free: svcCommand('openapi --port 0', place.dir, place.isSandbox),
  }
  switch (answer.kind) {
    case 'nobody':
      return [
        polling?.held
          ? note(
              'port',
              `nothing listens on ${url}, though a process polls`,
              'If it serves on another port, give doctor the same --host and --port.',
            )
          : ok('port', `${config.socket ?? `port ${port}`} is free for the service`),
      ]
    case 'svc': {
      const { seen: health } = answer
      const says = `svc ${health.version} answers on ${url} as ${health.role}`
      if (isElsewhere) {
        const who = polling?.pid === undefined ? 'Another process' : `Process ${polling.pid}`
        return [
          note(
            'port',
            `${says}, for another data directory`,
            polling?.held
              ? `${who} polls this one: give doctor the --port of its service, or the --base-path of that one.`
              : await adviceElsewhere(url, deadline, config.sandbox),
          ),
        ]
      }
      if (answer.status !== 200) {
        const { trouble } = health
        return [
          bad(
            'port',
            `svc ${health.version} answers on ${url}; ${trouble?.message ?? 'its message store does not work'}`,
            trouble?.hint ?? 'Look at its log; disk and store are judged here too.',
          ),
        ]
      }
      if (health.version !== version) {
        return [
          warning(
            'port',
            `${says}; this is ${version}`,
            'Restart the service, so that both are of one version.',
          ),
        ]
      }
      return [ok('port', says)]
    }
    default:
      return [noService('port', patient, url, answer, other)]
  }
}

async function tokenOf({ config, place, polling }: Patient): Promise<Found[]> {
  const found: Found[] = []
  const isOpen = isExposed(config)
  const path = tokenPath(place.dir)
  let given: string | undefined
  try {
    given = await givenToken(config)
  } catch (error) {
    const { message, hint } = error as SvcError
    found.push(bad('token', message, hint))
  }
  let kept: string | undefined
  try {
    kept = (await readText(path))?.trim()
  } catch (error) {
    if (place.state === 'ours') {
      found.push(
        bad(
          'token',
          `api_token cannot be read: ${troubleOf(error)}`,
          `sudo chown "$(id -un)" ${shellWord(path)} && chmod 600 ${shellWord(path)}`,
        ),
      )
    }
  }
  const info = await statOf(path).catch(() => undefined)
  if (info && process.platform !== 'win32' && (info.mode & 0o077) !== 0) {
    found.push(
      warning(
        'token',
        'other users of this machine may read api_token',
        `chmod 600 ${shellWord(path)}, then make a new one: rm ${shellWord(path)} and restart svc`,
      ),
    )
  }
  if (given !== undefined && isGuessable(given)) {
    const what = 'the token that was given can be guessed'
    found.push(isOpen ? bad('token', what, strong) : warning('token', what, strong))
  } else if (given === undefined && kept && isGuessable(kept)) {
    const anew = `rm ${shellWord(path)}, and restart svc: it makes a new one`
    found.push(
      isOpen
        ? bad('token', 'the token in api_token can be guessed', anew)
        : warning('token', 'the token in api_token can be guessed', anew),
    )
  }
  const args = polling?.held && polling.pid !== undefined ? await processArguments(polling.pid) : undefined
  if (args?.some(arg => /^--token(=|$)/.test(arg))) {
    found.push(
      warning(
        'token',
        'the token stands in the process list, where every user of this machine sees it',
        'Give it as SVC_TOKEN instead of --token.',
      ),
    )
  }
  if (found.length > 0) return found
  if (given !== undefined) return [ok('token', 'a token is given, and cannot be guessed')]
  if (kept) return [ok('token', 'a token is kept in api_token')]
  return [
    ok(
      'token',
      isOpen
        ? 'a token is made and kept in api_token when svc starts'
        : 'no token is needed: svc serves this machine alone',
    ),
  ]
}
