/** What the owner of an agent reads when a turn fails: one line with a reason and advice, and never a secret. */
import { describe, expect, test } from 'bun:test'
import { chineseFailures, englishFailures, formatFailure } from '../../src/agent/failure-text.ts'
import { agentError } from '../../src/agent/process.ts'
import { toPublicLine } from '../../src/agent/redact.ts'

const none = {}

describe('a line for people on WeChat', () => {
  test.each([
    ['boot\nError: no such model\n', 'Error: no such model'],
    [
      'Error: no such model\n    at run (/app/x.js:1:2)\n    at main\n\nNode.js v22.1.0\n',
      'Error: no such model',
    ],
    ['Traceback:\n  File "x.py", line 3\nValueError: bad colour', 'ValueError: bad colour'],
    ["ls: unknown option '--x'\nTry 'ls --help' for more information.", "ls: unknown option '--x'"],
    [
      "error: unexpected argument '--x' found\n\n  tip: to pass it\n\nUsage: codex exec [OPTIONS]\n\nFor more information, try '--help'.",
      "error: unexpected argument '--x' found",
    ],
    ['\u001b[31mred\u001b[0m alert\u0007', 'red alert'],
    ['', ''],
    ['\n \n', ''],
    ['é'.repeat(500), `${'é'.repeat(199)}…`],
    [`${'very '.repeat(100)}long`, `${'very '.repeat(39)}very…`],
    ['模型不存在', '模型不存在'],
    ['Usage: see --help', undefined],
    // No key, although it is long.
    ['model claude-sonnet-4-5-20250929 not found', 'model claude-sonnet-4-5-20250929 not found'],
    ['/home/anna/projects/weather-station-2/read.py: no such file', undefined],
    ['AuthenticationErrorException: quota', 'AuthenticationErrorException: quota'],
    ['retry at 2026-11-28T03:31:16.000Z', 'retry at 2026-11-28T03:31:16.000Z'],
  ])('%j', (said, line = said) => {
    expect(toPublicLine(said, none)).toBe(line)
  })

  const secrets = [
    'Incorrect API key provided: sk-proj-abcDEF123456ghi',
    'key sk-ab******xyz9 is wrong',
    'token ghp_0123456789abcdefghijABCDEFGHIJ012345',
    'github_pat_11ABCDEFG0_abcdef',
    'xoxb-1234567890-abcdefghij',
    'AKIAIOSFODNN7EXAMPLE was refused',
    'AIzaSyA1234567890abcdefghijklmnopqrstu',
    'Authorization: Bearer short1',
    'authorization=Basic dXNlcjpwYXNz',
    'sent "api_key": "hunter2"',
    'password=hunter2 for anna',
    'cannot reach postgres://anna:hunter2@db/main',
    'GET https://api.example/v1?key=hunter2 failed',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln',
    '-----BEGIN PRIVATE KEY-----MIIB',
    'session 5f1c9c1e-aaaa-bbbb-cccc-0123456789ab',
    'digest 9f86d081884c7d659a2feaa0c55ad015',
    'blob dGhpcyBpcyBhIHNlY3JldCB2YWx1ZQ==',
    'Zq3xVb8LmN0pRt5Ws2Yk7',
  ]
  test.each(secrets)('without what looks like a key: %s', said => {
    const line = toPublicLine(said, none)
    expect(line).toContain('…')
    const found =
      /hunter2|short1|dXNlcjpwYXNz|abcDEF|xyz9|0123456789ab|ABCDEFG0|IOSFODNN|SyA1234|eyJ|MIIB|5f1c9c1e|9f86d081|dGhpcy|Zq3x|1234567890-/
    expect(line).not.toMatch(found)
  })

  test('without what stands in the environment: values, their lines, and what they are made of', () => {
    const env = {
      TOKEN: 'plum',
      DATABASE_URL: 'postgres://anna:apricot-pie@db.local:5432/main?sslmode=off',
      PASSPHRASE: 'correct horse battery staple',
      PEM: 'first-line\nsecond-line',
      HOME: '/home/anna',
      MODE: 'true',
      LONG: 'x(y)[z]*$^\\',
    }
    const hide = (said: string) => toPublicLine(said, env)
    expect(hide('refused plum and xplumx')).toBe('refused … and x…x')
    expect(hide('user apricot-pie failed')).toBe('user … failed')
    expect(hide('said correct horse battery staple')).toBe('said …')
    expect(hide('at second-line here')).toBe('at … here')
    expect(hide('/home/anna/x: no such file')).toBe('…/x: no such file')
    expect(hide('it is true that construed is')).toBe('it is … that construed is')
    expect(hide('x(y)[z]*$^\\ is odd')).toBe('… is odd')
    expect(hide('nothing here')).toBe('nothing here')
  })
})

describe('the reason of a failure', () => {
  const adviceFor = (how: Parameters<typeof agentError>[2]) => {
    const error = agentError('problem', 'hint', how)
    const both = [englishFailures, chineseFailures].map(texts => {
      const line = formatFailure(error, texts)
      expect(line).not.toContain('\n')
      return Object.entries(texts.advice).find(([, advice]) => line.endsWith(advice))?.[0]
    })
    expect(both[0]).toBe(both[1]!)
    return both[0]
  }

  test.each([
    ['limit', 'Claude usage limit reached. Your limit will reset at 3pm'],
    ['limit', 'Error: 429 Too Many Requests'],
    ['limit', 'Your credit balance is too low'],
    ['limit', 'You exceeded your current quota'],
    ['login', 'Invalid API key · Please run /login'],
    ['login', 'Not logged in. Run codex login'],
    ['login', 'HTTP 401 Unauthorized'],
    ['options', "error: unknown option '--modle'"],
    ['options', "error: unexpected argument '--x' found"],
    ['options', 'ls: unrecognized option: z'],
    ['model', 'connect ECONNREFUSED 127.0.0.1:11434'],
    ['model', 'API Error: Connection error.'],
    ['model', 'TypeError: fetch failed'],
    ['again', 'Segmentation fault'],
    ['again', 'memory limit exceeded'],
  ])('%s: %s', (advice, said) => {
    expect(adviceFor({ how: 'status', value: 1, said })).toBe(advice)
  })

  test('says how a program ended, what a model is, and what is no ACP agent', () => {
    expect(adviceFor({ how: 'signal', value: 'SIGKILL' })).toBe('again')
    expect(adviceFor({ how: 'unreachable', value: '127.0.0.1:1' })).toBe('model')
    expect(adviceFor({ how: 'refused', value: 401, said: 'no' })).toBe('login')
    expect(adviceFor({ how: 'refused', value: 429, said: 'slow down' })).toBe('limit')
    expect(adviceFor({ how: 'acp' })).toBe('acp')
    const killed = agentError('x', 'y', { how: 'signal', value: 'SIGKILL' })
    expect(formatFailure(killed, englishFailures)).toContain('SIGKILL')
  })
})
