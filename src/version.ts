/** The version of svc. Its only source is package.json; a build adds its commit. */
import pkg from '../package.json' with { type: 'json' }

/** Set by a build that knows its commit (scripts/build/commit.ts). The name exists nowhere else. */
declare const svcCommit: string | undefined

/** Like 0.9.0+c83edfc47863. From the sources, and built without a repository, only 0.9.0. */
export const version: string = typeof svcCommit === 'string' ? `${pkg.version}+${svcCommit}` : pkg.version
