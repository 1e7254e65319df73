/** Programs that svc knows, played by scripts that print what the real ones print. The long test runs the real ones. */
import { expect, test } from 'bun:test'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PromptFile } from '../../../src/agent/backend.ts'
import { createCommandBackend } from '../../../src/agent/backends/command.ts'
import { findKnownProgram } from '../../../src/agent/backends/known-programs.ts'
import { folderOfTest } from '../../support/folder.ts'

const id = '2ae56c35-bd6c-4e2f-bcb3-7ac9be6d6a6c'

/** What each program prints for an answer, an unknown session, and a failure. */
const programs = [
  {
    command: ['claude', '-p', '--permission-mode', 'plan'],
    answer: [
      { type: 'system', subtype: 'init', session_id: id },
      { type: 'assistant', message: { content: [{ type: 'text', text: 'I look' }] }, session_id: id },
      { type: 'result', subtype: 'success', is_error: false, result: 'the answer', session_id: id },
    ],
    unknown: [{ type: 'result', subtype: 'error_during_execution', is_error: true, session_id: 'x' }],
    failure: [
      { type: 'system', subtype: 'init', session_id: id },
      { type: 'result', subtype: 'success', is_error: true, result: 'no credit', session_id: id },
    ],
    args: '-p --permission-mode plan --output-format stream-json --verbose',
    resumed: `-p --permission-mode plan --output-format stream-json --verbose --resume ${id}`,
  },
  {
    command: ['codex', 'exec', '-s', 'read-only'],
    answer: [
      { type: 'thread.started', thread_id: id },
      { type: 'item.completed', item: { type: 'error', message: 'a warning' } },
      { type: 'item.completed', item: { type: 'agent_message', text: 'I look' } },
      { type: 'error', message: 'Reconnecting... 1/5' },
      { type: 'item.completed', item: { type: 'agent_message', text: 'the answer' } },
      { type: 'turn.completed' },
    ],
    unknown: [],
    failure: [
      { type: 'thread.started', thread_id: id },
      { type: 'turn.failed', error: { message: 'no credit' } },
    ],
    args: 'exec -s read-only --skip-git-repo-check --json -',
    resumed: `exec -s read-only --skip-git-repo-check resume --json ${id} -`,
    images: 'exec -s read-only --skip-git-repo-check --image /in/a.png --json -',
  },
  {
    command: ['opencode', 'run'],
    answer: [
      { type: 'step_start', sessionID: id, part: { type: 'step-start' } },
      { type: 'text', sessionID: id, part: { type: 'text', text: 'I look' } },
      { type: 'step_start', sessionID: id, part: { type: 'step-start' } },
      { type: 'text', sessionID: id, part: { type: 'text', text: 'the answer' } },
      { type: 'step_finish', sessionID: id, part: { reason: 'stop' } },
    ],
    unknown: [],
    failure: [{ type: 'error', sessionID: id, error: { name: 'X', data: { message: 'no credit' } } }],
    args: 'run --format json',
    resumed: `run --format json --session ${id}`,
    images: 'run --format json --file=/in/a.png',
  },
]

const file = (name: string): PromptFile => ({ path: `/in/${name}`, name, type: 'image/png', kind: 'image' })

for (const { command, ...known } of programs) {
  const [name = '', ...args] = command

  /** Makes the program print these lines; with a session, the unknown ones. */
  function setUp(printed: readonly unknown[], status = 0) {
    const bin = folderOfTest()
    const folder = join(bin, 'work')
    mkdirSync(folder)
    writeFileSync(
      join(bin, 'new'),
      printed.map(line => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'),
    )
    writeFileSync(join(bin, 'unknown'), known.unknown.map(line => JSON.stringify(line)).join('\n'))
    const lines = `#!/bin/sh
      echo "$*" >> ${bin}/args; cat > ${bin}/prompt
      case "$*" in *unknown-id*) cat ${bin}/unknown; echo no such session >&2; exit 1;; esac
      cat ${bin}/new; exit ${status}`
    writeFileSync(join(bin, name), lines)
    chmodSync(join(bin, name), 0o755)
    const backend = createCommandBackend({ command: [join(bin, name), ...args] })
    const kept: string[] = []
    const run = (agentSession?: string, files: PromptFile[] = []) => {
      const { signal } = new AbortController()
      return backend.run(
        { text: 'the prompt', files },
        { folder, agentSession, signal, ask: async () => '', keepSession: session => kept.push(session) },
      )
    }
    return { run, kept, read: (what: string) => readFileSync(join(bin, what), 'utf8').trimEnd() }
  }

  test(`${name}: the prompt goes in, the answer and the session come out, and the session goes on`, async () => {
    const { run, read } = setUp(known.answer)
    expect(await run()).toEqual({ text: 'the answer', agentSession: id })
    expect(read('prompt')).toBe('the prompt')
    expect(await run(id)).toMatchObject({ agentSession: id })
    expect(read('args').split('\n')).toEqual([known.args, known.resumed])
  })

  if (name === 'claude')
    test('claude: an answer that is cut says why', async () => {
      const began = { type: 'system', subtype: 'init', session_id: id }
      const said = (stop_reason: string) => ({ type: 'assistant', message: { stop_reason } })
      const result = { type: 'result', subtype: 'success', result: 'half' }
      const cut = setUp([began, said('max_tokens'), result])
      expect(await cut.run()).toMatchObject({ text: 'half', early: 'length' })
      const whole = setUp([began, said('max_tokens'), said('end_turn'), result])
      expect((await whole.run()).early).toBeUndefined()
      const turns = setUp(
        [began, said('tool_use'), { type: 'result', subtype: 'error_max_turns', is_error: true }],
        1,
      )
      expect(await turns.run()).toMatchObject({ text: '', early: 'steps' })
    })

  test(`${name}: an unknown session begins again; a failure does not`, async () => {
    const { run, read } = setUp(known.answer)
    const again = await run('unknown-id')
    expect(again.agentSession).toBe(id)
    // With a note that the conversation is a new one.
    expect(again.text).toMatch(/.+\n\nthe answer$/)
    expect(read('args').split('\n')).toHaveLength(2)
    const failing = setUp(known.failure, 1)
    expect(String(await failing.run(id).catch(error => error))).toContain('no credit')
    // The next turn continues what the failed one began.
    expect(failing.kept).toEqual([id])
    expect(failing.read('args').split('\n')).toHaveLength(1)
    const silent = setUp([], 1)
    expect(String(await silent.run('unknown-id').catch(error => error))).toContain('status 1')
    expect(silent.read('args').split('\n')).toHaveLength(2)
  })

  test(`${name}: pictures, sessions that are no words, lines that are no events`, async () => {
    const odd = ['junk', '[]', 'null', '{"type":"item.completed","item":7}', '{"type":"text","part":null}']
    const { run, read } = setUp([...odd, 'x'.repeat(2_000_000), ...known.answer])
    await run('--evil', [file('a.png'), file('a,b.png'), { ...file('v.wav'), kind: 'voice' }])
    expect(read('args')).toBe(known.images ?? known.args)
    const empty = setUp(['{}'])
    expect(String(await empty.run().catch(error => error))).toContain('no events')
  })
}

test.each([
  ['claude -p --verbose --output-format=stream-json', '', '--resume x'],
  ['claude -p --output-format stream-json', '--verbose', '--verbose --resume x'],
  ['codex exec --skip-git-repo-check -s read-only', '--json -', 'resume --json x -'],
  ['codex exec --json --skip-git-repo-check', '-', 'resume x -'],
  ['opencode run --format json -m a/b', '', '--session x'],
  ['opencode run --format=json', '', '--session x'],
])('%s is not given its options twice', (line, first, later) => {
  const command = line.split(' ')
  const added = (session?: string) => findKnownProgram(command)?.argumentsFor(session, [], command).join(' ')
  expect([added(), added('x')]).toEqual([first, later])
})

test('a command that chooses for itself is used as it is', () => {
  const isKnown = (line: string) => findKnownProgram(line.split(' ')) !== undefined
  expect(
    ['/opt/claude --print', 'npx -y @anthropic-ai/claude-code@2 -p', 'npx opencode-ai run'].map(isKnown),
  ).toEqual([true, true, true])
  const others = [
    'claude',
    'claude -p --continue',
    'claude -p --output-format=text',
    'claude -p {prompt}',
    'claude -p --output-format json',
    'opencode run --format default',
    'codex exec -',
  ]
  expect(
    [...others, 'codex exec resume --last', 'codex', 'cat -p', 'opencode serve'].filter(isKnown),
  ).toEqual([])
})
