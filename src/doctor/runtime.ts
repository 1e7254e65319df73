/** The program and its process: version, runtime, and what many sessions need of it. */
import process from 'node:process'
import { counted } from '../platform/format.ts'
import { openFilesLimit } from '../platform/other-process.ts'
import { isBundle } from '../platform/packed.ts'
import { fetchLimitVariable, hasRaisedFetchLimit, isCompiled, usualFetchLimit } from '../platform/process.ts'
import { slotsOf } from '../platform/slots.ts'
import type { Patient } from './context.ts'
import { type Found, ok, warning } from './finding.ts'

/** Sessions that are polled at a time where the limit was not raised at the start of the process. */
const unraisedPolls = slotsOf(usualFetchLimit).polls.size
/** Files and sockets that svc has open besides one per session. */
const spareFiles = 100

/** What is run. The package holds the sources as JavaScript. */
function form(): string {
  if (isCompiled) return 'the binary'
  if (isBundle) return 'the script for Deno'
  return import.meta.url.endsWith('.ts') ? 'from source' : 'the npm package'
}

/** Looks at this program, and at the process that polls. */
export async function examineRuntime({ version, polling, sessions }: Patient): Promise<Found[]> {
  const { bun, deno } = process.versions
  const runtime = deno ? `Deno ${deno}` : bun ? `Bun ${bun}` : `Node ${process.version}`
  const found = [
    ok('version', `svc ${version}, ${form()} on ${runtime}, ${process.platform} ${process.arch}`),
  ]
  const count = sessions.sessions.filter(({ status }) => status === 'connected').length
  if (!polling?.held || polling.pid === undefined) return found
  const { pid } = polling
  if (count > unraisedPolls && (await hasRaisedFetchLimit(pid)) === false && bun) {
    found.push(
      warning(
        'fetch_limit',
        `process ${pid} has the runtime's usual limit of requests: it polls ${unraisedPolls} of ${count} sessions at a time`,
        `Restart it as svc openapi, which raises the limit where the system allows it, or with ${fetchLimitVariable}=60000 in its environment.`,
      ),
    )
  }
  const files = await openFilesLimit(pid)
  if (files !== undefined && files < 2 * count + spareFiles) {
    found.push(
      warning(
        'open_files',
        `process ${pid} may open ${counted(files, 'file')}, which is few for ${count} sessions`,
        'Raise the limit where svc is started: ulimit -n 65536, or LimitNOFILE=65536 in its unit.',
      ),
    )
  }
  return found
}
