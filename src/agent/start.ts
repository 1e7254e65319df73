/** Starts an agent from its settings: creates the backend that runs its turns, and the part that asks its owner. */

import { getEnvironment } from '../config.ts'
import type { Svc } from '../index.ts'
import { badArgument } from '../model/error.ts'
import { isInside, realPathOf, statOf } from '../platform/files.ts'
import { quoteForShell } from '../platform/format.ts'
import { runAgent } from './agent.ts'
import { Approvals } from './approvals.ts'
import type { Backend } from './backend.ts'
import type { AgentConfig } from './config.ts'
import { type AgentBase, createDelivery } from './delivery.ts'
import { requireIsolation } from './isolation.ts'
import { findProgram } from './process.ts'
import { createQuestions, type QuestionPorts } from './questions.ts'
import { followSessions } from './talkers.ts'
import { Times } from './times.ts'

export interface StartPorts extends Omit<AgentBase, 'names'> {
  /** The data directory. */
  readonly dataFolder: string
  readonly agents: readonly AgentConfig[]
}

/**
 * Creates the backend of an agent. Starts nothing.
 *
 * @throws SvcError `invalid_arguments` if the program is absent, or cannot be isolated
 */
export async function createBackend(
  config: AgentConfig,
  { agents, clock, dataFolder, log }: Pick<StartPorts, 'agents' | 'clock' | 'dataFolder' | 'log'>,
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

/** Runs an agent until the signal aborts. @throws SvcError as `runAgent` */
export async function startAgent(
  svc: Svc,
  backend: Backend,
  config: AgentConfig,
  { agents, clock, dataFolder, folders, log, pace, tasks }: StartPorts,
  closing: AbortSignal,
): Promise<void> {
  const work = await svc.workAsAgent()
  const names = await followSessions(agents, work)
  const { delivery, people } = createDelivery(svc, work, config, { agents, clock, folders, log, names, pace })
  const approvals = new Approvals({ svc, work, people, config, show: delivery.show.bind(delivery), clock })
  const pauseMs = config.gatherMs
  const times = new Times({ work, people, delivery, config, clock })
  const decide: QuestionPorts['decide'] = (question, ...answer) =>
    (question.drafts?.length ? approvals : times).decide(question, ...answer)
  const questions = createQuestions({ svc, work, people, delivery, decide, pauseMs, clock, log })
  const ports = {
    agents,
    names,
    clock,
    folders,
    dataFolder,
    log,
    tasks,
    ...(pace && { pace }),
    ask: questions.ask.bind(questions),
    takeAnswer: questions.takeAnswer.bind(questions),
    findAsker: questions.findAsker.bind(questions),
    closeLost: questions.closeLost.bind(questions),
  }
  await runAgent(svc, backend, config, ports, closing)
}
