/** The linters of OpenAPI and AsyncAPI documents, from the workspace `test/openapi-tools`. */
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { type Ended, ended } from './ended.ts'

export const toolsDir = fileURLToPath(new URL('../openapi-tools', import.meta.url))

/** Runs a program of the workspace under this Bun, without telemetry and update checks. */
export const runTool = (args: readonly string[], stdin?: string): Promise<Ended> =>
  ended([process.execPath, ...args], {
    cwd: toolsDir,
    stdin,
    env: { PATH: process.env.PATH ?? '', REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  })

/**
 * Lints the documents at these URLs with Redocly's strict recommended rules. Returns the problems of each.
 */
export async function redocly(urls: readonly string[]): Promise<unknown[][]> {
  const { status, stdout, stderr } = await runTool([
    Bun.resolveSync('@redocly/cli/package.json', toolsDir).replace('package.json', 'bin/cli.js'),
    'lint',
    ...urls,
    '--extends=recommended-strict',
    // One answer, `default`, stands for every failure.
    '--skip-rule=operation-4xx-response',
    '--format=json',
  ])
  // Redocly prints one object per document.
  const found = JSON.parse(`[${stdout.replaceAll(/^}\s*{/gm, '},{')}]`) as { problems: unknown[] }[]
  if (found.length !== urls.length || (status === 0) !== found.every(({ problems }) => problems.length === 0))
    throw new Error(`Redocly: ${status}\n${stdout}${stderr}`)
  return found.map(({ problems }) => problems)
}

/**
 * Generates types from the document, and compiles a client that uses them.
 *
 * @param from the folder whose TypeScript is used
 */
export async function checkedClient(document: string, from: string): Promise<Ended> {
  const client = `${toolsDir}/client`
  const generated = await runTool(['generate.ts'], document)
  if (generated.status !== 0) return generated
  await Bun.write(`${client}/schema.ts`, generated.stdout)
  const typescript = Bun.resolveSync('typescript/package.json', from)
  return runTool([typescript.replace('package.json', 'bin/tsc'), '-p', client])
}

export interface SpectralFinding {
  severity: number
  code: string
  path: unknown
  message: string
}

/** Lints a document with one of Spectral's own rulesets. */
export const spectral = async (ruleset: 'oas' | 'asyncapi', document: string): Promise<SpectralFinding[]> =>
  JSON.parse((await runTool(['spectral.ts', ruleset], document)).stdout)

/** Parses a document with AsyncAPI's own parser. */
export const asyncApi = async (
  document: string,
): Promise<{ version: string; messages: string[]; diagnostics: unknown[] }> =>
  JSON.parse((await runTool(['asyncapi.ts'], document)).stdout)
