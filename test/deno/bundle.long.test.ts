/** The bundle under Deno: the whole conversation where nothing else lies. */
import { describe, expect, test } from 'bun:test'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import pkg from '../../package.json' with { type: 'json' }
import { bundle } from '../../scripts/bundle.ts'
import { buildPanel } from '../../scripts/panel.ts'
import { smoke } from '../../scripts/smoke.ts'
import { deno, denoEnv, denoOrNone, denoRun } from '../support/deno.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'
import { listen, speak } from '../support/voice.ts'

const folder = folderOfFile()

describe.skipIf(!deno)(`the bundle under ${denoOrNone}`, () => {
  /** A folder with nothing else in it, as after a download. */
  const empty = () => join(folder, 'empty')
  const file = () => join(empty(), 'svc.mjs')

  test('is one file, and made again it has the same bytes', async () => {
    await buildPanel(join(folder, 'panel'))
    await bundle({ outfile: file(), panel: join(folder, 'panel') })
    await bundle({ outfile: join(folder, 'another', 'svc.mjs'), panel: join(folder, 'panel') })
    expect((await readFile(file())).equals(await readFile(join(folder, 'another', 'svc.mjs')))).toBe(true)
    expect((await readFile(file(), 'utf8')).includes(process.cwd())).toBe(false)
    // Started by its name alone.
    expect((await stat(file())).mode & 0o111).toBe(0o111)
  })

  test('holds the whole conversation where nothing else lies, and when it comes from an address', async () => {
    const env = { DENO_DIR: join(folder, 'cache') }
    const headers = { 'content-type': 'text/javascript' }
    using web = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => new Response(Bun.file(file()), { headers }),
    })
    await smoke({
      ...{ command: denoRun(file()), again: denoRun(`${web.url}svc.mjs`) },
      ...{ data: join(folder, 'bundled'), cwd: empty(), env, version: pkg.version },
    })
    const { stdout } = await run(denoRun(`${web.url}svc.mjs`), 'setup', 'cursor', '--print')
    const { mcpServers } = JSON.parse(stdout.slice(stdout.indexOf('{')))
    const own = ['run', '--allow-all', `${web.url}svc.mjs`, 'mcp', '-t', 'stdio', '--consumer', 'cursor']
    expect(mcpServers.svc.args).toEqual(own)
  })

  const run = (command: string[], ...args: string[]) =>
    ended([...command, ...args], {
      ...{ cwd: empty(), env: { PATH: '/nowhere', HOME: join(folder, 'home'), ...denoEnv } },
      stdin: `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`,
    })
  const hello = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  }

  test('decodes voice, and may read no file for it', async () => {
    const child = Bun.spawn([...denoRun(file(), ['--allow-env']), 'decode-voice'], {
      ...{ cwd: empty(), stdin: await speak(2), stdout: 'pipe', stderr: 'pipe' },
      env: { ...denoEnv, HOME: join(folder, 'home') },
    })
    const [wav, said] = await Promise.all([
      new Response(child.stdout).bytes(),
      new Response(child.stderr).text(),
    ])
    expect([said, listen(wav).seconds]).toEqual(['', 2])
  })

  test.each([
    [['setup', 'cursor', '--print'], /"run",\s+"--allow-all",\s+".*svc\.mjs",\s+"mcp"/],
    [['setup', 'codex', '--print'], /args = \[ ?"run", "--allow-all", ".*svc\.mjs", "mcp"/],
    [['completion', 'bash'], /complete .*svc/],
    [['sessions', '--sandbox'], /^$/],
    [['doctor', '-p', '0', '-d', 'none', '--sandbox'], / svc [\d.]+(\+\w+)?, the script for Deno on Deno /],
    [['mcp', '-t', 'stdio', '--sandbox', '--sandbox-port', '0'], /"serverInfo":\{"name":"svc"/],
  ])('svc %p needs nothing beside it', async (args, answer) => {
    const { status, stdout, stderr } = await run(denoRun(file()), ...args)
    expect([status, stdout, stderr]).toEqual([
      0,
      expect.stringMatching(answer),
      expect.not.stringMatching(/bug in svc|Cannot find/),
    ])
  })
})
