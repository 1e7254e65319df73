/** Beside MCP over HTTP, where REST is not served: uploads, the bytes of media, the outbox, health. */
import { expect, test } from 'bun:test'
import { dirname } from 'node:path'
import { svc } from '../support/command.ts'
import { connectHttp, logInOver, startMcp } from '../support/mcp.ts'
import { withSandbox } from '../support/sandbox.ts'
import { stopwatch } from '../support/stopwatch.ts'

const token = 'a-token-of-the-test'
const authorization = { authorization: `Bearer ${token}` }

test.each(['http', 'sse'] as const)(
  'svc mcp -t %s takes uploads and gives media, to who has the token, and stops with a client connected',
  async transport => {
    await using sandbox = await withSandbox()
    await using service = await startMcp(transport, { sandbox, args: ['--token', token] })
    const at = (path: string) => `${dirname(service.url)}${path}`
    await using client = await connectHttp(service.url, { kind: 'sdk1', headers: authorization })
    await logInOver(client, sandbox)
    await sandbox.media('file', Buffer.from('三季度'), { name: '报告.txt' })
    const [message] = await client.value('recv', { timeout: 30 })

    for (const path of ['/media', '/outbox', `/media/${message.message_id}/0`])
      expect((await fetch(at(path))).status).toBe(401)
    expect(
      (await fetch(at('/outbox'), { headers: { ...authorization, origin: 'http://evil.example' } })).status,
    ).toBe(403)

    const uploaded = await fetch(at('/media?file_name=note.txt'), {
      method: 'POST',
      headers: authorization,
      body: 'hello',
    })
    const { upload_id, size } = await uploaded.json()
    expect(size).toBe(5)
    const sent = await client.value('send', { to: message.from_user, media: [{ kind: 'file', upload_id }] })
    expect(sent).toMatchObject({ success: true, parts: [{ kind: 'file', status: 'accepted' }] })

    const got = await fetch(at(`/media/${message.message_id}/0`), { headers: authorization })
    expect(await got.text()).toBe('三季度')
    expect(await (await fetch(at('/outbox'), { headers: authorization })).json()).toEqual([])

    // Health is open, and svc health knows it.
    expect(await (await fetch(at('/healthz'))).json()).toMatchObject({
      status: 'ok',
      role: 'poller',
      connected: 1,
    })
    const health = await svc(['health', '--url', at('')], { home: service.dir })
    expect(health).toMatchObject({ status: 0, stdout: expect.stringMatching(/^healthy: svc /) })

    // Nothing else of REST is there.
    for (const path of [
      '/tools/default/sessions',
      '/tools',
      '/docs',
      '/openapi.json',
      '/mediax',
      '/outbox/1/approve',
      '/users/u%40x/name',
    ]) {
      const response = await fetch(at(path), { headers: authorization })
      expect([path, response.status]).toEqual([path, 404])
    }
    const wrong = await fetch(at('/media'), { headers: authorization })
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST, OPTIONS'])

    using watch = stopwatch()
    expect(await service.kill('SIGTERM')).toBe(0)
    // The grace for answers is 3 s: nobody waits for any here.
    expect(watch.ms).toBeLessThan(2500)
  },
)
