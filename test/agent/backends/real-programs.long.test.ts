/** The programs that svc knows, as published on npm, with a model on loopback in place of their maker's. */
import { expect, test } from 'bun:test'
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCommandBackend } from '../../../src/agent/backends/command.ts'
import { environmentIn, installed, type Program, programs } from '../../support/agents.ts'
import { standInModel } from '../../support/stand-in-model.ts'

const commands: Readonly<Record<string, readonly string[]>> = {
  'claude-code': ['-p'],
  codex: ['exec'],
  opencode: ['run', '--model', 'stand-in/stand-in'],
}
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Says what of the conversation and of its pictures the model gets. */
const answer = (request: string) =>
  [
    request.includes('my color is BLUE') && 'BLUE',
    request.includes('what color') && 'asked',
    request.includes(png.slice(0, 40)) && 'picture',
  ]
    .filter(Boolean)
    .join(' ')

for (const program of programs.filter(({ name }) => name in commands)) {
  const found = await installed(program.spec, program.bin)
  const folder = 'folder' in found ? found.folder : undefined
  if ('why' in found) console.warn(`skipped: npm does not give ${program.spec}: ${found.why}`)
  test.skipIf(folder === undefined)(
    `${program.name}: a conversation goes on, with a picture, and an unknown one begins again`,
    () => converse(program, folder!),
    300_000,
  )
}

async function converse(program: Program, installedIn: string): Promise<void> {
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-agent-')))
  const model = standInModel(() => ({ say: 'done' }), [], answer)
  try {
    const server = { command: ['true'] }
    const { env } = await program.call({ home, folder: installedIn, model: model.url, server })
    const command = [join(installedIn, 'node_modules', '.bin', program.bin), ...commands[program.name]!]
    const backend = createCommandBackend({ command, env: { ...environmentIn(home), ...env } })
    const folder = join(home, 'work')
    await mkdir(folder)
    const path = join(folder, 'a.png')
    await writeFile(path, Buffer.from(png, 'base64'))
    const picture = { path, name: 'a.png', type: 'image/png', kind: 'image' } as const
    const { signal } = new AbortController()
    const ask = (text: string, agentSession?: string, files: (typeof picture)[] = []) =>
      backend.run({ text, files }, { folder, agentSession, signal, ask: async () => '' })

    const first = await ask('my color is BLUE')
    expect(first).toMatchObject({ text: 'BLUE' })
    const second = await ask('-- what color?', first.agentSession, [picture])
    // Claude Code opens the file itself, with a tool.
    const seen = program.name === 'claude-code' ? 'BLUE asked' : 'BLUE asked picture'
    expect(second).toEqual({ text: seen, agentSession: first.agentSession })
    const unknown = first.agentSession!.replace(/\w{4}$/, '0000')
    const again = await ask('what color', unknown)
    expect(again.text).toEndWith('\n\nasked')
    expect(again.agentSession).not.toBe(unknown)
  } finally {
    model.stop()
    await rm(home, { recursive: true, force: true, maxRetries: 10 })
  }
}
