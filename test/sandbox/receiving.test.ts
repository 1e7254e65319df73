import { expect, test } from 'bun:test'
import { type Answer, ilink } from '../support/ilink-client.ts'
import { withSandbox } from '../support/sandbox.ts'

const isExpired = ({ ret, errcode }: Answer) => ret === -14 || errcode === -14

for (const shut of ['expired', 'lapsed'] as const) {
  const open = (answer: Answer) => 'msgs' in answer && 'get_updates_buf' in answer
  const says = (answer: Answer) =>
    shut === 'expired' ? isExpired(answer) : answer.text === '{"ret":0,"errmsg":""}'

  test(`a receive side that is ${shut} heals after so many answers, and what was written meanwhile is there`, async () => {
    await using sandbox = await withSandbox({
      switches: { hold_ms: 1, receive: shut, receive_heals_after: 2 },
    })
    const bot = ilink(sandbox.url, sandbox.bot().token)
    await sandbox.say('meanwhile')
    await bot.post('msg/notifystart', {})
    expect(says(await bot.poll())).toBe(true)
    expect(says(await bot.poll())).toBe(true)
    expect((await bot.poll()).msgs).toHaveLength(1)
    // Set once more, it is shut once more.
    await sandbox.switches({ receive: shut })
    expect(says(await bot.poll())).toBe(true)
    await sandbox.switches({ receive: 'open' })
    expect(open(await bot.poll())).toBe(true)
  })

  test(`a receive side that is ${shut} heals on notifystart, which can be made to fail`, async () => {
    await using sandbox = await withSandbox({
      switches: { hold_ms: 1, receive: `${shut}_until_start`, notifystart: 'fail' },
    })
    const bot = ilink(sandbox.url, sandbox.bot().token)
    expect(says(await bot.poll())).toBe(true)
    expect((await bot.post('msg/notifystart', {})).http).toBe(500)
    expect(says(await bot.poll())).toBe(true)
    await sandbox.switches({ notifystart: 'accept' })
    await bot.post('msg/notifystart', {})
    expect(open(await bot.poll())).toBe(true)
  })
}

test('a gateway ends long polls; what waits comes at once', async () => {
  await using sandbox = await withSandbox({ switches: { hold_cut: '524', hold_cut_after_ms: 1 } })
  const bot = ilink(sandbox.url, sandbox.bot().token)
  expect((await bot.poll()).http).toBe(524)
  await sandbox.switches({ hold_cut: 'reset' })
  expect(await bot.poll().catch(() => 'reset')).toBe('reset')
  await sandbox.say('hi')
  expect((await bot.poll()).msgs).toHaveLength(1)
})

test('a bot that said notifystop is offline until it says notifystart; one that said neither is not', async () => {
  await using sandbox = await withSandbox({ switches: { notifystop: 'refuse_sends' } })
  const { token, user_id } = sandbox.bot()
  const bot = ilink(sandbox.url, token)
  await sandbox.say('hi')
  const ret = async () => (await bot.send(user_id, 'x')).ret
  expect(await ret()).toBe(0)
  await bot.post('msg/notifystop', {})
  expect(await ret()).toBe(-2)
  await sandbox.switches({ notifystop: 'drop_sends' })
  expect(await bot.send(user_id, 'lost')).toMatchObject({ text: '{"ret":0}' })
  await bot.post('msg/notifystart', {})
  expect(await ret()).toBe(0)
  expect(await sandbox.messages({ from: 'bot' })).toHaveLength(2)
})
