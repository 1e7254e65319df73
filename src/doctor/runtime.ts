/** The program: its version, and what it runs on. */
import process from 'node:process'
import { isBundle } from '../platform/packed.ts'
import { isCompiled } from '../platform/process.ts'
import type { DoctorContext } from './context.ts'
import { type Found, ok } from './finding.ts'

/** What is run. The package holds the sources as JavaScript. */
function form(): string {
  if (isCompiled) return 'the binary'
  if (isBundle) return 'the script for Deno'
  return import.meta.url.endsWith('.ts') ? 'from source' : 'the npm package'
}

/** Looks at this program. */
export function examineRuntime({ version }: DoctorContext): Found[] {
  const { bun, deno } = process.versions
  const runtime = deno ? `Deno ${deno}` : bun ? `Bun ${bun}` : `Node ${process.version}`
  return [ok('version', `svc ${version}, ${form()} on ${runtime}, ${process.platform} ${process.arch}`)]
}
