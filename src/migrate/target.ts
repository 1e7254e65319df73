/** What stands in svc's data directory before a move, looked at without changing anything: it need not exist yet. */
import { realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { countOf, filledOf, objectOf } from '../ilink/fields.ts'
import { dataFiles } from '../model/data-files.ts'
import { badArgument } from '../model/error.ts'
import { sessionKey } from '../model/session.ts'
import { liesIn, readText, realWay, statOf } from '../platform/files.ts'
import { namesIn, readJson } from './source.ts'

/** A session of ours. Secret. */
export interface TargetSession {
  name: string
  bot_id: string
  token: string
  created_at: number
  expired: boolean
}

export interface Target {
  sessions: TargetSession[]
  /** `sessionKey` of the names in the directory that are not free. */
  taken: Set<string>
  /** The chosen default session. */
  defaultSession?: string
}

/**
 * Looks at the data directory.
 *
 * @throws SvcError `invalid_arguments` when it belongs to the sandbox, or is or lies in the source; the system's error
 */
export async function lookAtTarget(into: string, from: string): Promise<Target> {
  await refuseOverlap(into, from)
  const names = await namesIn(into)
  const target: Target = { sessions: [], taken: new Set() }
  for (const name of names ?? []) {
    const found = await statOf(join(into, name)).catch(() => undefined)
    if (found?.isDirectory() && (await isLeftover(join(into, name)))) continue
    target.taken.add(sessionKey(name))
    if (!found?.isDirectory()) continue
    if (name === dataFiles.sandbox) throw isSandbox(into)
    const read = await readJson(join(into, name, dataFiles.token))
    const fields = objectOf(read.value)
    const [bot_id, token] = [filledOf(fields?.bot_id), filledOf(fields?.token)]
    if (!bot_id || !token || name.startsWith('.')) continue
    target.sessions.push({
      name,
      bot_id,
      token,
      created_at: countOf(fields?.created_at) ?? 0,
      expired: fields?.expired_at !== undefined,
    })
  }
  const chosen = (await readText(join(into, dataFiles.defaultSession)).catch(() => undefined))?.trim() ?? ''
  const found = target.sessions.find(({ name }) => sessionKey(name) === sessionKey(chosen))
  if (found) target.defaultSession = found.name
  return target
}

/** A session's folder without credentials, as a move or a logout that was killed leaves it: the name is free. */
async function isLeftover(folder: string): Promise<boolean> {
  const names = await namesIn(folder).catch(() => undefined)
  return names?.every(name => leftovers.test(name)) === true && basename(folder) !== 'sandbox'
}

const leftovers = /^contexts\.json$|^(token|contexts)\.json\.[0-9a-f]{12}\.tmp$/

const isSandbox = (into: string) =>
  badArgument('--base-path', `${into} belongs to the sandbox`, {
    hint: 'Real accounts and those of the sandbox never mix: choose another folder.',
  })

/** Nothing in the source is to change, so the target cannot lie in it. */
async function refuseOverlap(into: string, from: string): Promise<void> {
  if (!liesIn(await realpath(from), await realWay(into))) return
  throw badArgument('--base-path', `${into} is the folder to move from, or lies in it`, {
    hint: 'Choose another data directory for svc.',
  })
}
