/** A login belongs to no process: three that share a data directory, one after the other. */
import { expect, test } from 'bun:test'
import { withSandbox } from '../support/sandbox.ts'
import { type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

test('a login begun in one process, which is killed, is followed and verified in the next and ends in a third', async () => {
  await using sandbox = await withSandbox({ switches: { verify_code: 'on' } })
  await using stack = new AsyncDisposableStack()
  const args = ['--upstream-url', sandbox.url]
  const first = stack.use(await startService({ sandbox: false, args }))
  const { dir } = first
  const [second, third] = await Promise.all(
    [1, 2].map(async () => stack.use(await startService({ sandbox: false, args, dir }))),
  )
  const ask = async (service: Service, input: object = {}) =>
    (await service.call('login', { session_name: 'work', timeout: 0, ...input })).body
  const all = () => `${first.log()}\n${second!.log()}\n${third!.log()}`
  /** Asks until it says so. */
  const asked = (service: Service, status: string, input = {}) =>
    until(
      status,
      30_000,
      async () => {
        const said = await ask(service, { timeout: 0.5, ...input })
        return said.status === status && said
      },
      all,
    )

  const { qr_url } = await ask(first)
  // One QR code, whoever is asked.
  expect(await ask(second!)).toMatchObject({ status: 'waiting', session: 'work', qr_url })
  await first.kill('SIGKILL')
  const { verify_code } = await sandbox.scan({ qrcode: qr_url, confirm: true })
  await asked(second!, 'need_verifycode')
  // Without a name the only one under way is meant, in this process too.
  expect(await asked(third!, 'need_verifycode', { session_name: undefined })).toMatchObject({
    session: 'work',
    qr_url,
  })
  const wrong = verify_code === '0000' ? '1111' : '0000'
  expect(await ask(third!, { verify_code: wrong, timeout: 20 })).toMatchObject({ notice: 'wrong_code' })
  const polls = () => sandbox.world.core.stats.requests.get_qrcode_status
  const before = polls()
  await ask(second!, { timeout: 1 })
  expect(polls()).toBe(before)
  await ask(second!, { verify_code, timeout: 0 })
  await second!.kill('SIGTERM')
  expect(await asked(third!, 'confirmed')).toMatchObject({ bot_id: expect.stringMatching(/@im\.bot$/) })
  expect(sandbox.world.core.stats.requests.get_bot_qrcode).toBe(1)
  const { body: sessions } = await third!.call('sessions')
  expect(sessions).toMatchObject([{ name: 'work', status: 'connected' }])
}, 120_000)
