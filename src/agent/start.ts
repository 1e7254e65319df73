/** Creates the backend that runs the turns of an agent, from its settings. */

import { getEnvironment } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { isInside, realPathOf, statOf } from '../platform/files.ts'
import { quoteForShell } from '../platform/format.ts'
import type { AgentPorts } from './agent.ts'
import type { Backend } from './backend.ts'
import type { AgentConfig } from './config.ts'
import { requireIsolation } from './isolation.ts'
import { findProgram } from './process.ts'

/**
 * Creates the backend of an agent. Starts nothing.
 *
 * @throws SvcError `invalid_arguments` if the program is absent, or cannot be isolated
 */
export async function createBackend(
  config: AgentConfig,
  { agents = [config], clock, dataFolder, log }: Pick<AgentPorts, 'agents' | 'clock' | 'dataFolder' | 'log'>,
): Promise<Backend> {
  const { backend, env: given, isolate } = config
  for (const folder of foldersOf(config))
    if (!(await statOf(folder))?.isDirectory())
      throw badArgument('folder', `there is no folder ${folder}`, {
        hint: `Make it with: mkdir -p ${quoteForShell(folder)}`,
      })
  await requireApart(config, agents)
  if (backend.kind === 'openai') {
    const { createOpenAiBackend } = await import('./backends/openai.ts')
    return createOpenAiBackend(backend)
  }
  const { command } = backend
  await findProgram(command[0] ?? '', getEnvironment().PATH)
  if (isolate) await requireIsolation(foldersOf(config))
  const isolatedFrom = isolate ? dataFolder : undefined
  if (backend.kind === 'acp') {
    const { createAcpBackend } = await import('./backends/acp.ts')
    const { mode } = backend
    return createAcpBackend({ command, given, isolatedFrom, ...(mode && { mode }), clock, log })
  }
  const { createCommandBackend } = await import('./backends/command.ts')
  return createCommandBackend({ command, given, isolatedFrom })
}

const foldersOf = ({ folder, folders = {}, users = {} }: AgentConfig): string[] =>
  [folder, ...Object.values(folders), ...Object.values(users).map(one => one.folder)].filter(
    one => one !== undefined,
  )

/**
 * Rejects folders that contain each other: an isolated agent could put a link in place of the folder of another
 * conversation.
 *
 * @throws SvcError `invalid_arguments`
 */
async function requireApart(config: AgentConfig, agents: readonly AgentConfig[]): Promise<void> {
  const own = config.isolate ? await Promise.all(foldersOf(config).map(realPathOf)) : []
  const all = await Promise.all(agents.flatMap(foldersOf).map(realPathOf))
  for (const folder of own)
    for (const other of all)
      if (other !== folder && isInside(folder, other))
        throw badArgument('folder', `${other} is inside ${folder}, in which an isolated agent may write`, {
          hint: 'Choose folders that lie side by side.',
        })
}
