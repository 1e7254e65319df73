/** What a release is tried with besides the conversation: a backup and its restore, and an agent. */
import { ended } from '../../test/support/ended.ts'
import { end, family } from '../../test/support/family.ts'
import { overhear } from '../../test/support/overheard.ts'
import { startService } from '../../test/support/service.ts'
import { until } from '../../test/support/until.ts'
import type { ConversationState } from './conversation.ts'
import { expectMatch } from './expected.ts'

export interface Place {
  command: readonly string[]
  /** The data directory as this script sees it, and as svc sees it. Files are made beside it. */
  data: string
  dataInside: string
  cwd: string
  env: Record<string, string>
  /** Longest time for one thing. */
  withinMs: number
}

/** Backs up the directory, restores the backup into another one, and reads the conversation there. */
export async function checkBackup(place: Place, known: ConversationState): Promise<void> {
  const { command, data, dataInside, cwd, env, withinMs } = place
  const [file, restored] = [`${dataInside}.tar`, `${dataInside}-restored`]
  for (const args of [
    ['backup', file, '-d', dataInside],
    ['restore', file, '-d', restored],
  ]) {
    const { status, stderr } = await ended([...command, ...args, '--sandbox'], { cwd, env, withinMs })
    expectMatch({ status, stderr: status === 0 ? '' : stderr }, { status: 0, stderr: '' })
  }
  await using service = await startService({
    dir: `${data}-restored`,
    dirInside: restored,
    command: [...command],
    env,
    cwd,
    readyWithinMs: withinMs,
  })
  expectMatch((await service.call('history')).body.messages, known.messages)
}

/** Puts the scripted agent in front of the phone, and reads its answer there. */
export async function checkAgent({ command, dataInside, cwd, env, withinMs }: Place): Promise<void> {
  const options = ['--sandbox', '--sandbox-port', '0', '--pace', 'off', '-d', dataInside]
  const child = Bun.spawn([...command, 'agent', ...options, '--', 'svc', 'echo-agent'], {
    cwd,
    env,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const output = overhear(child)
  const printed = () => `${output.stdout}${output.stderr}`.slice(-2000)
  try {
    const phone = await until(
      'the phone',
      withinMs,
      () => /http:\S+\/phone/.exec(output.stdout)?.[0],
      printed,
    )
    await until('the agent', withinMs, () => output.stdout.includes('may talk with it'), printed)
    const body = JSON.stringify({ text: 'Hello' })
    await fetch(`${phone}/say`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const seen = async () => (await fetch(`${phone}/messages?from=bot`)).text()
    await until('the answer', withinMs, async () => (await seen()).includes('You said: Hello'), printed)
  } finally {
    for (const pid of family(child.pid)) end(pid, 'SIGKILL')
    await output.exited
  }
}
