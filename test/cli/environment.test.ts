/** What was meant and not said: --sandbox left out beside a sandbox service, variables that svc does not know. */
import { describe, expect, test } from 'bun:test'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { svc, svcRunning } from '../support/command.ts'
import { lineOf, specs } from '../support/command-lines.ts'
import { folderOfFile } from '../support/folder.ts'
import { servedAt } from '../support/service.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
// Nothing answers there: a command that asks WeChat, or a service, fails at once.
const nowhere = {
  SVC_UPSTREAM_URL: 'http://127.0.0.1:9',
  SVC_CDN_URL: 'http://127.0.0.1:9',
  SVC_PORT: '9',
  SVC_LOG_LEVEL: 'ERROR',
}

const ofDirectory = specs.filter(({ config }) => config !== undefined)

/** A sandbox service on the usual directory of a home of its own. */
async function besideSandbox(name: string) {
  const at = { home: join(home, name), env: nowhere }
  await mkdir(at.home)
  const args = ['openapi', '--sandbox', '--port', '0', '--sandbox-port', '0', '--no-banner']
  const running = svcRunning(args, { home: at.home })
  await until('it listens', 30_000, () => servedAt(running.stdout))
  return {
    at,
    async [Symbol.asyncDispose]() {
      running.stop('SIGTERM')
      await running.exited
    },
  }
}

describe('--sandbox left out beside a sandbox service', () => {
  test('only these commands do not say so at their end', () => {
    const silent = ofDirectory.filter(({ isServer, noSandboxHint }) => isServer || noSandboxHint === 'ever')
    expect(silent.map(spec => spec.words).sort()).toEqual([
      'admin',
      'agent',
      'hook-ask',
      'hook-poll',
      'mcp',
      'migrate openclaw',
      'migrate weilink',
      'openapi',
      'restore',
      'sandbox',
      'scrub',
      'secrets off',
      'secrets on',
      'secrets rotate',
      'service install',
      'store adopt',
      'store aside',
      'store copy',
    ])
  })

  test('every other command that acts on a directory names the one that runs, once', async () => {
    await using beside = await besideSandbox('beside')
    const { at } = beside
    const running = join(at.home, '.svc-sandbox')
    for (const spec of ofDirectory.filter(
      ({ isServer, noSandboxHint }) => !isServer && noSandboxHint !== 'ever',
    )) {
      const args = lineOf(spec)
      const { status, stderr } = await svc(args, at)
      expect([args, status, stderr.split(`${running}: to use it add --sandbox`).length - 1]).toEqual([
        args,
        expect.any(Number),
        1,
      ])
      expect([args, status]).not.toEqual([args, 2])
      if (!spec.jsonHelp) continue
      // For programs stderr has one JSON object or nothing: an error says it in its hint.
      const asJson = await svc([...args, '--json'], at)
      if (asJson.stderr !== '') expect(JSON.parse(asJson.stderr).hint).toContain('--sandbox')
      // They print a line for each event or message, and there is none.
      else if (args[0] === 'events' || args[0] === 'export')
        expect([asJson.status, asJson.stdout]).toEqual([0, ''])
      else expect(() => JSON.parse(asJson.stdout)).not.toThrow()
    }
    // Whoever says where is not told, in whatever way.
    for (const place of [['--sandbox'], ['-d', join(at.home, 'other')]])
      expect((await svc(['webhook', ...place], at)).stderr).not.toContain(running)
    const onPostgres = {
      SVC_STORE_URL: 'postgres://svc:p@127.0.0.1:9/svc',
      SVC_SECRET_KEY: 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE',
    }
    const { status, stderr } = await svc(['webhook'], { ...at, env: { ...nowhere, ...onPostgres } })
    expect(status).toBe(1)
    expect(stderr).toContain('127.0.0.1:9/svc')
    expect(stderr).not.toContain('--sandbox')
  })

  test('a command that goes on says it first, and a service in its log', async () => {
    await using beside = await besideSandbox('lasting')
    const { at } = beside
    const running = join(at.home, '.svc-sandbox')
    const lines = [
      ['recv', '--follow'],
      ['events', '--follow'],
      ['openapi', '--port', '0', '--log-level', 'WARNING'],
      ['admin', '--admin-port', '0', '--log-level', 'WARNING'],
    ]
    for (const args of lines) {
      const going = svcRunning(args, at)
      await until(`${args[0]} says it`, 10_000, () => going.stderr.includes(running))
      going.stop('SIGTERM')
      expect((await going.exited).stderr.split(running).length - 1).toBe(1)
    }
  })
})

describe('variables that svc does not know', () => {
  const start = async (env: Record<string, string>, ...args: string[]) => {
    const at = { home, env }
    const place = ['-d', join(home, 'variables'), '--sandbox', '--sandbox-port', '0']
    const running = svcRunning(['openapi', '--port', '0', ...place, ...args], at)
    await until('it listens', 30_000, () => running.stdout.includes('listening on'))
    running.stop('SIGTERM')
    return running.exited
  }

  test('a service warns of each once, with the one that was meant and without the value', async () => {
    const { stderr, stdout } = await start({
      SVC_PROT: 'hidden-value-1',
      SVC_LOGLEVEL: 'hidden-value-2',
      SVC_XQZW: 'hidden-value-3',
      SVC_EMPTY_ONE: '',
    })
    const warnings = stderr.split('\n').filter(line => line.includes(' WARNING '))
    expect(warnings.filter(line => /SVC_PROT\b.*SVC_PORT\?/.test(line)).length).toBe(1)
    expect(warnings.filter(line => /SVC_LOGLEVEL\b.*SVC_LOG_LEVEL\?/.test(line)).length).toBe(1)
    expect(warnings.filter(line => /SVC_XQZW\b/.test(line) && !line.includes('?')).length).toBe(1)
    expect(stderr + stdout).not.toMatch(/hidden-value|SVC_EMPTY/)
  })

  test('those of Kubernetes, and those of the tests, are no mistakes', async () => {
    const { status, stderr } = await start({
      SVC_PORT: 'tcp://10.0.0.1:8000',
      SVC_SERVICE_HOST: '10.0.0.1',
      SVC_SERVICE_PORT: '8000',
      SVC_SERVICE_PORT_HTTP: '8000',
      SVC_PORT_8000_TCP: 'tcp://10.0.0.1:8000',
      SVC_PORT_8000_TCP_PROTO: 'tcp',
      SVC_PORT_8000_TCP_PORT: '8000',
      SVC_PORT_8000_TCP_ADDR: '10.0.0.1',
      SVC_ADMIN_PORT: 'tcp://10.0.0.2:8080',
      SVC_ADMIN_SERVICE_HOST: '10.0.0.2',
      SVC_WORKER_PORT: 'tcp://10.0.0.3:80',
      SVC_TEST_PROGRAM: '/nowhere',
      SVC_CHANNEL_VERSION: '2.4.9',
    })
    expect([status, stderr]).toEqual([0, expect.not.stringContaining('WARNING')])
  })

  test('doctor finds them, a command that does one thing says nothing', async () => {
    const at = { home, env: { ...nowhere, SVC_AMDIN_PORT: 'hidden-value' } }
    const place = ['-d', join(home, 'variables'), '--sandbox']
    const { stdout } = await svc(['doctor', '--json', '--timeout', '1', ...place], at)
    const found = JSON.parse(stdout).findings.filter(
      ({ check }: { check: string }) => check === 'environment',
    )
    expect(found.map(({ severity }: { severity: string }) => severity)).toEqual(['warning'])
    expect(found[0].what).toContain('SVC_ADMIN_PORT')
    expect(stdout).not.toContain('hidden-value')
    expect(await svc(['users', ...place], at)).toMatchObject({
      status: 0,
      stderr: expect.not.stringContaining('SVC_'),
    })
  })
})
