/** `--key-file`: the client on standard input and output has a key, directly and over the bridge. */
import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { consumerReads, svc } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { bridgeCommand, connectBridge, connectStdio, mcpHere } from '../support/mcp.ts'
import { withSandbox } from '../support/sandbox.ts'
import { storeVariablesOf } from '../support/shared-store.ts'
import { until } from '../support/until.ts'

/** The home of a command and the variables of its store. */
const homeOf = async (dir: string) => ({ home: dir, env: await storeVariablesOf(dir) })

/** Makes a key on the data directory, as a person does. */
async function addKey(dir: string, ...grant: string[]): Promise<{ id: string; file: string }> {
  const args = ['key', 'add', 'agent', ...grant, '-d', dir, '--json']
  const { status, stdout } = await svc(args, await homeOf(dir))
  expect(status).toBe(0)
  const { id, key } = JSON.parse(stdout)
  const file = join(dir, 'agent.key')
  await writeFile(file, `${key}\n`)
  return { id, file }
}

const namesOf = (tools: { name: string }[]) => tools.map(({ name }) => name)

test.each(['revoke', 'rotate'])(
  'over stdio: the client may do what the key may do, until svc key %s',
  async verb => {
    await using sandbox = await withSandbox()
    const dir = folderOfTest()
    const { id, file } = await addKey(dir, '--can', 'read')
    await using client = await connectStdio({ sandbox, dir, kind: 'sdk1', args: ['--key-file', file] })
    expect(namesOf(await client.tools())).toEqual(['recv', 'download', 'history', 'sessions'])
    let isClosed = false
    client.raw.onclose = () => {
      isClosed = true
    }
    const waiting = client.call('recv', { timeout: 60 })
    await consumerReads(dir, `${id}/%`)
    expect((await svc(['key', verb, id, '-d', dir], await homeOf(dir))).status).toBe(0)
    expect((await waiting)._meta['svc/problem']).toMatchObject({ code: 'unauthorized' })
    await until('the process ends', 20_000, () => isClosed)
    expect(client.log()).toContain('"agent"')
  },
)

test('over stdio: no start without a key that is valid now', async () => {
  const dir = folderOfTest()
  const { id, file } = await addKey(dir, '--can', 'read')
  const home = await homeOf(dir)
  const start = (path: string, ...more: string[]) =>
    svc(['mcp', '-d', dir, '--key-file', path, ...more], home)
  await svc(['key', 'revoke', id, '-d', dir], home)
  const [empty, other] = [join(dir, 'empty'), join(dir, 'other')]
  await writeFile(empty, '')
  await writeFile(other, 'a-token-that-is-no-key\n')
  for (const path of [file, other]) {
    const { status, stdout, stderr } = await start(path)
    expect([path, status, stdout, stderr.includes(path)]).toEqual([path, 1, '', true])
  }
  for (const path of [empty, join(dir, 'missing')])
    expect([path, (await start(path)).status]).toEqual([path, 2])
  expect((await start(file, '-t', 'http', '--port', '0')).status).toBe(2)
})

test('over the bridge: the service gets the key of the file', async () => {
  await using service = await mcpHere('http', { sessions: ['work'] })
  const { dir, gateway } = service.t
  const { file } = await addKey(dir, '--tools', 'history')
  await using client = await connectBridge(service.url, { command: [...bridgeCommand, '--key-file', file] })
  expect(namesOf(await client.tools())).toEqual(['history'])
  expect(await gateway.keys.hasAny()).toBe(true)
  const both = await svc(['mcp', '--url', service.url, '--key-file', file, '--token', 'another'], {
    home: dir,
  })
  expect(both.status).toBe(2)
})

for (const kind of ['2025', 'sdk1'] as const)
  test.each(['revoke', 'rotate'])(
    `over the bridge: it stops after svc key %s, without a call (${kind})`,
    async verb => {
      await using service = await mcpHere('http', { sessions: ['work'] })
      const { dir, gateway } = service.t
      const { id, file } = await addKey(dir, '--can', 'read')
      await using client = await connectBridge(service.url, {
        kind,
        command: [...bridgeCommand, '--key-file', file],
      })
      let isClosed = false
      client.raw.onclose = () => {
        isClosed = true
      }
      expect(namesOf(await client.tools())).toContain('history')
      if (verb === 'revoke') await gateway.keys.revoke(id, owner)
      else await gateway.keys.rotate(id, 0, owner)
      await until('the process ends', 20_000, () => isClosed)
      expect(client.log()).toContain('token')
    },
  )
