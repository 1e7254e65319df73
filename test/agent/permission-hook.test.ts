/** What Claude Code's permission hook gets, as a person on WeChat sees it, and what the transcript of a session tells. */
import { expect, test } from 'bun:test'
import { appendFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  followTranscript,
  formatPermission,
  type HookRequest,
  readHookRequest,
} from '../../src/agent/permission-hook.ts'
import { folderOfTest } from '../support/folder.ts'

const request = (tool_name: string, tool_input: Record<string, unknown>, more = {}): HookRequest => ({
  hook_event_name: 'PermissionRequest',
  tool_name,
  tool_input,
  cwd: '/home/me/project',
  ...more,
})

/** The lines that a person sees, and whether a warning says that something is missing. */
function shown(tool: string, input: Record<string, unknown>, env = {}) {
  const lines = formatPermission(request(tool, input), env).split('\n')
  return {
    lines: lines.filter(line => line.startsWith('> ')),
    isWhole: !lines.some(line => line.startsWith('⚠')),
  }
}

test('the tool, the folder, and what it does; nothing of it is left out silently', () => {
  expect(shown('Bash', { command: 'rm -rf build\nmake', description: 'harmless' })).toEqual({
    lines: ['> Bash · /home/me/project', '> rm -rf build ⏎ make'],
    isWhole: true,
  })
  expect(shown('Bash', { command: 'ls', dangerouslyDisableSandbox: true }).lines[2]).toBe(
    '> {"dangerouslyDisableSandbox":true}',
  )
  expect(shown('Edit', { file_path: '/a', old_string: 'x', new_string: 'y' }).lines.slice(1)).toEqual([
    '> /a',
    '> {"old_string":"x","new_string":"y"}',
  ])
  const own = { command: ['rm'], url: 7 }
  expect(shown('mcp__home__run', own).lines[1]).toBe(`> ${JSON.stringify(own)}`)
  const long = shown('Bash', { command: `echo ${'a '.repeat(5000)}; rm -rf /` })
  expect(long.lines[1]).toEndWith('; rm -rf /')
  expect(long.isWhole).toBe(false)
  expect(shown('Write', { file_path: '/a', content: 'words '.repeat(10_000) }).isWhole).toBe(false)
})

test('secrets are hidden, and that is said; folders and usual words stay', () => {
  const env = { MY_TOKEN: 'swordfish-7', HOME: '/home/me', SHELL: '/bin/bash', XDG_SESSION_TYPE: 'user' }
  const hidden = shown('Bash', { command: 'curl -H "X: swordfish-7" https://a.example' }, env)
  expect(hidden.lines[1]).not.toContain('swordfish')
  expect(hidden.isWhole).toBe(false)
  const usual = shown('Bash', { command: '/bin/bash /home/me/run user' }, env)
  expect(usual).toEqual({
    lines: ['> Bash · /home/me/project', '> /bin/bash /home/me/run user'],
    isWhole: true,
  })
})

test('no text of the agent begins a line or hides in one', () => {
  const forged = 'ls\r\nA4RN 1 = no\nA4RN 2 = yes\u2028\u202eabc'
  const text = formatPermission(
    { ...request(forged, { command: forged, [forged]: forged }), cwd: forged },
    {},
  )
  expect(text).not.toMatch(/[\r\u2028\u202e]/)
  for (const line of text.split('\n').slice(1)) expect(line).toMatch(/^> /)
})

test('what is no prompt for a yes or a no is left on the screen', () => {
  const read = (value: object) => readHookRequest(JSON.stringify(value))
  expect(read(request('Bash', { command: 'ls' }))).toBeDefined()
  for (const name of ['AskUserQuestion', 'ExitPlanMode']) expect(read(request(name, {}))).toBeUndefined()
  expect(read({ ...request('Bash', {}), hook_event_name: 'PreToolUse' })).toBeUndefined()
  expect(read({ ...request('Bash', {}), tool_input: 'ls' })).toBeUndefined()
})

test.each([
  ['a session', {}, 'one.jsonl'],
  ['a subagent', { agent_id: 'a1' }, 'one/subagents/agent-a1.jsonl'],
])(
  'in the transcript of %s, the result of this call tells that it was allowed on the screen',
  async (_, more, name) => {
    const folder = folderOfTest()
    const path = join(folder, name)
    await Bun.write(path, '')
    const line = (part: object) => `${JSON.stringify({ message: { content: [part] } })}\n`
    const call = (id: string, command: string) =>
      line({ type: 'tool_use', id, name: 'Bash', input: { command } })
    const result = (id: string) => line({ type: 'tool_result', tool_use_id: id })
    // The same command has run before.
    await writeFile(path, call('1', 'ls') + result('1') + call('2', 'ls') + call('3', 'pwd'))
    const asked = request(
      'Bash',
      { command: 'ls', added: false },
      { transcript_path: join(folder, 'one.jsonl'), ...more },
    )
    const isDecided = await followTranscript(asked)
    expect(await isDecided()).toBe(false)
    await appendFile(path, `${result('3')}{"message":{"content":[{"type":"tool_res`)
    expect(await isDecided()).toBe(false)
    await appendFile(path, `\n${result('2')}`)
    expect(await isDecided()).toBe(true)
  },
)
