/** The program and its process: version, runtime, and what many sessions need of it. */
import process from 'node:process'
import { openFilesLimit } from '../platform/other-process.ts'
import { isBundle } from '../platform/packed.ts'
import { hasRaisedFetchLimit, isCompiled } from '../platform/process.ts'
import { type Found, ok, warning } from './finding.ts'
import type { Patient } from './patient.ts'
import { counted } from './words.ts'

/** Bun's limit of fetches at a time, unless it is raised at the start of the process; each session holds one. */
const fetchLimit = 256
/** From here on svc raises it by itself when it starts. */
const manySessions = 100
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
  if (count < manySessions || !polling?.held || polling.pid === undefined) return found
  const { pid } = polling
  if (count > fetchLimit && (await hasRaisedFetchLimit(pid)) === false && bun) {
    found.push(
      warning(
        'fetch_limit',
        `process ${pid} was started when there were fewer sessions: it polls ${fetchLimit} of ${count} at a time`,
        'Restart svc: it raises the limit when it starts.',
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
