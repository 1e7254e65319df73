/**
 * The conformance suite of the protocol's authors against our HTTP door and our server, on top of which the suite's own
 * fixtures are registered. Every scenario for servers either passes or stands below with the reason why it does not apply.
 */
import { beforeAll, describe, expect, test } from 'bun:test'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ResourceChangeNotifier } from '../../src/mcp/announcements.ts'
import { createMcpServer } from '../../src/mcp/server.ts'
import { tools } from '../../src/operations/tools.ts'
import { silentLog } from '../../src/platform/log.ts'
import { addConformanceFixtures } from '../support/conformance-fixtures.ts'
import { folderOfFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { startDoor } from '../support/mcp-door.ts'

const suite = fileURLToPath(
  new URL('dist/index.js', import.meta.resolve('@modelcontextprotocol/conformance/package.json')),
)

const revisions = ['2025-11-25', '2026-07-28'] as const

const tasks =
  'An extension that svc does not offer: its calls end by themselves within five minutes and report progress.'
const skills =
  'An extension that svc does not offer: what an agent should know stands in the instructions and prompts.'

/** Scenarios that do not apply, and why; of those with `checks` the rest has to pass. */
const doesNotApply: Readonly<Record<string, { why: string; checks?: readonly string[] }>> = {
  'tasks-lifecycle': { why: tasks },
  'tasks-capability-negotiation': { why: tasks },
  'tasks-wire-fields': { why: tasks },
  'tasks-request-state-removal': { why: tasks },
  'tasks-mrtr-input': { why: tasks },
  'tasks-request-headers': { why: tasks },
  'tasks-dispatch-and-envelope': { why: tasks },
  'tasks-status-notifications': { why: tasks },
  'tasks-required-task-error': { why: tasks },
  'tasks-mrtr-composition': { why: tasks },
  'sep-2640-skills-directory': { why: skills },
  'sep-2640-skills-enumeration': { why: skills },
  'sep-2640-skills-manifest': { why: skills },
  'http-custom-header-server-validation': {
    why: 'No tool of svc takes a parameter from an HTTP header (x-mcp-header).',
  },
  'server-stateless': {
    why: 'Answers to calls are streams from their beginning, since recv may wait for minutes and must show life: their status is 200. No tool of svc needs what a client did not declare.',
    checks: ['sep-2575-missing-capability-http-400'],
  },
  'input-required-result-tampered-state': {
    why: 'svc hands out no requestState, so there is none to tamper with; the error of a fixture arrives as the result of its tool.',
    checks: ['sep-2322-reject-tampered-state'],
  },
}

interface Check {
  id: string
  status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO'
  errorMessage?: string
}

async function run(...args: string[]): Promise<string> {
  const child = Bun.spawn([process.execPath, suite, ...args], { stdout: 'pipe', stderr: 'pipe' })
  const [out] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  await child.exited
  return out
}

const dir = folderOfFile()
let scenarios: string[]
/** Revision → scenario → what did not pass. */
const results = new Map<string, Map<string, Check[]>>()

beforeAll(async () => {
  await using t = await withGateway({ sessions: [] })
  await using door = await startDoor({
    gateway: t.gateway,
    // One scenario calls the first tool, whichever that is: one that does not wait.
    tools: tools.toSorted((a, b) => Number(b.name === 'sessions') - Number(a.name === 'sessions')),
    changes: new ResourceChangeNotifier({ gateway: t.gateway, log: silentLog }),
    server(context) {
      const server = createMcpServer(context)
      addConformanceFixtures(server, context.era)
      return server
    },
  })
  scenarios = [...(await run('list', '--server')).matchAll(/^ {2}- (\S+)/gm)].map(match => match[1]!)
  for (const revision of revisions) {
    const out = join(dir, revision)
    await run('server', '--url', door.url, '--requirements', revision, '-o', out)
    results.set(revision, await readResults(out))
  }
}, 300_000)

async function readResults(out: string): Promise<Map<string, Check[]>> {
  const found = new Map<string, Check[]>()
  for (const folder of await readdir(out)) {
    const name = /^server-(.+)-\d{4}-\d\d-\d\dT/.exec(folder)![1]!
    const checks = JSON.parse(await readFile(join(out, folder, 'checks.json'), 'utf8')) as Check[]
    found.set(
      name,
      checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING'),
    )
  }
  return found
}

describe('conformance', () => {
  test('there is a suite, and every scenario for servers has run or does not apply', () => {
    expect(scenarios.length).toBeGreaterThan(60)
    const ran = new Set([...results.values()].flatMap(found => [...found.keys()]))
    expect(scenarios.filter(name => !ran.has(name) && !doesNotApply[name])).toEqual([])
    expect(Object.keys(doesNotApply).filter(name => !scenarios.includes(name))).toEqual([])
  })

  for (const revision of revisions)
    test(`every scenario of ${revision} passes that applies`, () => {
      const found = results.get(revision)!
      expect(found.size).toBeGreaterThan(30)
      const failed = [...found].flatMap(([name, checks]) => {
        const excused = doesNotApply[name]
        if (excused && !excused.checks) return []
        return checks
          .filter(({ id }) => !excused?.checks?.includes(id))
          .map(({ id, errorMessage }) => `${name}: ${id}: ${errorMessage}`)
      })
      expect(failed).toEqual([])
    })

  test('nothing is excused that passes', () => {
    // Without a task nothing is ever told of one, which passes.
    const silent = ['tasks-status-notifications']
    const passed = Object.entries(doesNotApply).filter(([name, { checks }]) => {
      const failures = [...results.values()].flatMap(found => found.get(name) ?? [])
      const ran = [...results.values()].some(found => found.has(name))
      return ran && !silent.includes(name) && !failures.some(({ id }) => !checks || checks.includes(id))
    })
    expect(passed).toEqual([])
  })
})
