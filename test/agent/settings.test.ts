/** The settings of agents: from options, and from a file with several. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { defaultAgent } from '../../src/agent/config.ts'
import { parseAgentFile, toAgentConfig } from '../../src/agent/settings.ts'
import { findHomeFolder } from '../../src/platform/process.ts'
import { failure, fieldsOf } from '../support/failure.ts'

const place = { nameOf: (key: string) => `--${key}`, folder: '/base' }
const path = '/etc/svc/agents.json'
const agentsOf = (...agents: object[]) => parseAgentFile(JSON.stringify({ agents }), path)

test('a file has comments, several agents, and folders relative to it', async () => {
  const text = `\ufeff{
    // Several.
    "agents": [
      { "name": "family", "openai": { "url": "http://127.0.0.1:1/v1/", "model": "m", "key_file": "key" }, "users": { "Mum": {}, "a@b": { "folder": "~/mum" } } },
      { "name": "work", "session": "work", "acp": ["gemini", "--acp"], "folder": "project", "isolate": true, "allow": "everyone" },
      { "command": ["claude", "-p"], "gather": 0.5, "turns_per_day": 7, "minutes_per_turn": 2, "resume_turns": true, "commands": false, "interrupt": true, "transcribe": "hear it", "skip_older": "2h", "beside": true, "allow": ["Bob"], "long": "file" },
    ],
  }`
  const [family, work, last] = await parseAgentFile(text, path)
  expect(family).toEqual({
    ...defaultAgent,
    name: 'family',
    backend: { kind: 'openai', url: 'http://127.0.0.1:1/v1', model: 'm', keyFile: '/etc/svc/key' },
    users: { Mum: { folder: undefined }, 'a@b': { folder: join(findHomeFolder(), 'mum') } },
  })
  expect(work).toMatchObject({
    session: 'work',
    backend: { kind: 'acp', command: ['gemini', '--acp'] },
    folder: '/etc/svc/project',
    isolate: true,
    allow: 'everyone',
  })
  expect(last).toMatchObject({
    name: 'agent',
    gatherMs: 500,
    turnsPerDay: 7,
    minutesPerTurn: 2,
    resumeTurns: true,
    commands: false,
    interrupt: true,
    transcribe: 'hear it',
    skipOlderMs: 7_200_000,
    allow: ['Bob'],
    long: 'file',
  })
})

test('what is wrong in a file is named by its place', async () => {
  const command = ['claude', '-p']
  const wrong: [agent: object, field: string][] = [
    [{ command, colour: 'red' }, 'agents[0].colour'],
    [{ command, name: '../up' }, 'agents[0].name'],
    [{ command, name: '' }, 'agents[0].name'],
    [{ command: 'claude -p' }, 'agents[0].command'],
    [{ command: [] }, 'agents[0].command'],
    [{ command, skip_older: 10 }, 'agents[0].skip_older'],
    [{ command, skip_older: 'soon' }, 'agents[0].skip_older'],
    [{ command, long: 'short' }, 'agents[0].long'],
    [{ command, beside: 'yes' }, 'agents[0].beside'],
    [{ command, ask: true }, 'agents[0].ask'],
    [{ command, mode: 'plan' }, 'agents[0].mode'],
    [{ acp: command, mode: 'plan', ask: true }, 'agents[0].ask'],
    [{ acp: command, mode: 7 }, 'agents[0].mode'],
    [{ command, approve: 'everyone' }, 'agents[0].approve'],
    [{ command, operator: '' }, 'agents[0].operator'],
    [{ command, gather: 11 }, 'agents[0].gather'],
    [{ command, gather: '1' }, 'agents[0].gather'],
    [{ command, turns_per_day: 1.5 }, 'agents[0].turns_per_day'],
    [{ command, minutes_per_turn: 0 }, 'agents[0].minutes_per_turn'],
    [{ command, isolate: 'yes' }, 'agents[0].isolate'],
    [{ command, allow: [] }, 'agents[0].allow'],
    [{ command, users: { Mum: '/x' } }, 'agents[0].users'],
    [{ command, users: { Mum: { dir: '/x' } } }, 'agents[0].users'],
    [{ command, users: {} }, 'agents[0].users'],
    [{ command, folders: {} }, 'agents[0].folders'],
    [{ command, folders: { '2': '~/x' } }, 'agents[0].folders'],
    [{ command, folders: { 'a/b': '~/x' } }, 'agents[0].folders'],
    [{ command, folders: { a: '' } }, 'agents[0].folders'],
    [{ command, folders: { a: '~/x' }, folder: '~/y' }, 'agents[0].folder'],
    [{ command, users: { Mum: {} }, allow: ['Bob'] }, 'agents[0].users'],
    [{ command, acp: command }, 'agents[0].command'],
    [{}, 'agents[0].command'],
    [{ openai: { url: 'ftp://x', model: 'm' } }, 'agents[0].openai'],
    [{ openai: { url: 'http://x/v1' } }, 'agents[0].openai'],
    [{ openai: { url: 'http://x/v1', model: 'm' }, isolate: true }, 'agents[0].isolate'],
    [{ command, __proto__x: 1 }, 'agents[0].__proto__x'],
    [{ command, constructor: 1 }, 'agents[0].constructor'],
  ]
  for (const [agent, field] of wrong) {
    const error = await failure(agentsOf(agent))
    expect([agent, fieldsOf(error)]).toEqual([agent, [field]])
  }
  expect(fieldsOf(await failure(agentsOf({ command }, { command })))).toEqual(['agents[1].name'])
  for (const text of [
    '',
    '[]',
    '{}',
    '{ "agents": [] }',
    '{ "agents": [1] }',
    '{ "agents": [{}], "more": 1 }',
    '{',
  ])
    expect([text, fieldsOf(await failure(parseAgentFile(text, path)))]).toEqual([text, ['--config']])
  const bad = await failure(parseAgentFile('{\n  "agents" [\n', path))
  expect(bad.message).toContain(path)
  expect(bad.message).toContain('line 2')
})

test('an agent with several folders begins in the first', async () => {
  const [one] = await agentsOf({ command: ['x'], folders: { work: '~/work', 博客: 'blog' } })
  const folders = { work: join(findHomeFolder(), 'work'), 博客: '/etc/svc/blog' }
  expect(one).toMatchObject({ folders, folder: folders.work })
})

test('an absent setting has its default, and options are named as they were typed', async () => {
  const config = toAgentConfig({ command: ['x'], name: undefined, allow: undefined, folder: 'here' }, place)
  expect(config).toMatchObject({ name: 'agent', allow: [], folder: '/base/here', gatherMs: 1500 })
  const wrong = Promise.resolve().then(() => toAgentConfig({ command: ['x'], gather: 'soon' }, place))
  expect(fieldsOf(await failure(wrong))).toEqual(['--gather'])
})
