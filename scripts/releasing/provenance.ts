/**
 * Says how the files of a release were made: an in-toto statement with SLSA's provenance. It has no signature
 * of its own; the signed sums contain it. The same commit gives the same bytes.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findCommit } from '../build/commit.ts'
import { type ReleasedFile, writeSums } from '../build/sums.ts'
import { targets } from '../build/targets.ts'
import type { ReleaseJob } from './parts.ts'

const provenanceFile = 'provenance.intoto.json'

/** What was asked for: with it somebody else gets the same files. */
export interface BuildRequest {
  version: string
  commit: string
  parts: readonly string[]
  url?: string
}

/** Writes the provenance of the files in the job's output, and the sums of all. @returns the sums */
export async function describeOutput(job: ReleaseJob): Promise<ReleasedFile[]> {
  const { folder, output, parts, url, version } = job
  const commit = findCommit(folder)
  if (!commit) throw new Error(`${folder} is no repository of its own, so nobody could make the files again`)
  const lock = Bun.JSONC.parse(await readFile(join(folder, 'bun.lock'), 'utf8')) as {
    packages: Record<string, unknown[]>
  }
  const digestOf = (name: string) => {
    const integrity = String(lock.packages[name]?.at(-1))
    return { sha512: Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex') }
  }
  const runtimes = targets.map(({ runtime }) => ({
    uri: `pkg:npm/${runtime.replace('@', '%40')}@${Bun.version}`,
    digest: digestOf(runtime),
  }))
  const source = {
    name: commit.isModified ? 'the sources, modified in a dry run' : 'the sources',
    digest: { gitCommit: commit.id },
  }
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: (await writeSums(output)).map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:svc:scripts/release',
        externalParameters: { version, parts, ...(url !== undefined && { url }) },
        internalParameters: { bun: `${Bun.version}+${Bun.revision.slice(0, 9)}` },
        resolvedDependencies: [source, ...runtimes],
      },
      runDetails: { builder: { id: 'urn:svc:holder-of-the-release-key' } },
    },
  }
  await writeFile(join(output, provenanceFile), `${JSON.stringify(statement, null, 2)}\n`, { mode: 0o644 })
  return writeSums(output)
}

/** Returns how a released folder says that it was made. */
export async function readRequest(folder: string): Promise<BuildRequest> {
  const statement = JSON.parse(await readFile(join(folder, provenanceFile), 'utf8'))
  const { externalParameters, resolvedDependencies } = statement.predicate.buildDefinition
  return { ...externalParameters, commit: resolvedDependencies[0].digest.gitCommit }
}
