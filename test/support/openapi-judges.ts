/** The linters of OpenAPI and AsyncAPI documents, which live in the workspace `test/openapi-tools`. */
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { type Ended, ended } from './ended.ts'

export const toolsDir = fileURLToPath(new URL('../openapi-tools', import.meta.url))

/** Runs a program of the workspace under this Bun; nothing of it may reach the network. */
export const runTool = (args: readonly string[], stdin?: string): Promise<Ended> =>
  ended([process.execPath, ...args], {
    cwd: toolsDir,
    stdin,
    env: { PATH: process.env.PATH ?? '', REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  })

/** What Redocly says of the document at this address, by its strict recommendation. */
export const redocly = (url: string): Promise<Ended> =>
  runTool([
    Bun.resolveSync('@redocly/cli/package.json', toolsDir).replace('package.json', 'bin/cli.js'),
    ...['lint', url, '--extends=recommended-strict', '--format=stylish'],
  ])

export interface SpectralFinding {
  severity: number
  code: string
  path: unknown
  message: string
}

/** What Spectral finds in a document by `spectral:oas`. */
export const spectral = async (document: string): Promise<SpectralFinding[]> =>
  JSON.parse((await runTool(['spectral.ts'], document)).stdout)

/** What AsyncAPI's own parser finds in a document. */
export const asyncApi = async (
  document: string,
): Promise<{ version: string; messages: string[]; diagnostics: unknown[] }> =>
  JSON.parse((await runTool(['asyncapi.ts'], document)).stdout)
