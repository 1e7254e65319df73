/** Messages of every kind, readers at different places, and sends that wait until the user writes. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expectMatch } from '../../scripts/smoke/expected.ts'
import { openSession, post } from '../support/mcp-raw.ts'
import { until } from '../support/until.ts'
import { answered, join as joined, receive, type Story, shown } from './home.ts'

const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)
const report = Buffer.from('三季度:一切顺利\r\n')

export const talk: Story = {
  async live(home) {
    await home.phone('switches', { burst: 'off', full_url: 'omitted' })
    const mei = await joined(home, 'home', 'Mei 梅')
    const user = await joined(home, 'work', 'Anna')
    await answered(home, 'set_default', { session_name: 'work' })
    // Readers begin with what comes after their first call. These stay behind.
    for (const consumer of ['slow', 'sure']) await answered(home, 'recv', { consumer, timeout: 0 })
    await home.say(user, '你好,机器人! 给我一张图?')
    await home.say(user, 'the quarterly report, please')
    await home.ask(`PUT /users/${user}/name`, { name: 'Anna 安娜' })
    await receive(home, 2)
    await receive(home, 1, { consumer: 'slow', limit: 1 })
    await receive(home, 1, { consumer: 'slow', limit: 1, session: 'work' })
    const [sure] = await receive(home, 2, { consumer: 'sure', ack: 0 })
    await answered(home, 'recv', { consumer: 'sure', ack: sure.id, timeout: 0 })

    // With a pace, as people have one.
    await home.svc('send', user, '好的,马上 👌', '--session', 'work', '--pace', '9/s')
    const { upload_id } = await home.ask('POST /media?file_name=dot.png', picture)
    await answered(home, 'send', { to: user, media: [{ kind: 'image', upload_id }] })
    const name = encodeURIComponent('报告.txt')
    await home.ask(`POST ${home.phoneUrl}/phone/media?kind=file&name=${name}&from=${user}`, report)
    const [file] = await receive(home, 1)
    await answered(home, 'download', { message_id: file.message_id })
    await home.ask(`POST ${home.phoneUrl}/phone/media?kind=image&name=dot.png&from=${user}`, picture)
    // One that nobody has read.
    await until('the picture is stored', 30_000, async () => {
      const { messages } = await answered(home, 'history', { msg_type: 'IMAGE', direction: 'received' })
      return messages.length === 1
    })

    // An agent that got one, and gave no sign of life since.
    await answered(home, 'recv', { consumer: 'agent', timeout: 0 })
    await home.say(user, 'for an agent')
    const mcp = { ...(await openSession(`${home.url}/mcp`, undefined, home.headers)), ...home.headers }
    const recv = { name: 'recv', arguments: { consumer: 'agent', timeout: 5 } }
    const handed = await post(
      `${home.url}/mcp`,
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params: recv },
      mcp,
    )
    expectMatch(await handed.text(), /for an agent/)
    // Its answers used up, the rest waits. Texts that follow each other go out as one.
    for (let more = 10; more > 0; more--) await answered(home, 'send', { to: user, text: `answer ${more}` })
    const later = [{ text: 'for later' }, { text: '以后再说' }, { media: [{ kind: 'image', upload_id }] }]
    for (const message of later) {
      const { status } = await answered(home, 'send', { to: user, ...message, when_closed: 'queue' })
      expectMatch(status, 'queued')
    }
    const planned = await answered(home, 'send', {
      to: user,
      text: 'on time',
      send_at: home.now() + 3_600_000,
    })
    await home.ask('POST /media?file_name=unused.png', picture)
    return {
      ...{ user, mei, file: file.message_id, planned: planned.outbox_id },
      waiting: [{ kind: 'text', text: 'for later\n\n以后再说' }, { kind: 'image' }],
      shown: await shown(home, user),
    }
  },

  async still(home, left) {
    const { user } = left
    for (const [needle, total] of [
      ['机器', 1],
      ['report', 1],
      ['马上', 1],
      ['absent', 0],
    ] as const) {
      const found = await answered(home, 'history', { text_contains: needle, user_id: user })
      expectMatch([needle, found.total, found.messages.length], [needle, total, total])
    }
    expectMatch(await readFile(join(home.dir, 'media/downloads/报告.txt')), report)
    const again = await fetch(`${home.url}/media/${left.file}/0`, { headers: home.headers })
    expectMatch([again.status, Buffer.from(await again.arrayBuffer())], [200, report])
    const planned = await home.ask(`GET /outbox/${left.planned}`)
    expectMatch(planned, { parts: [{ text: 'on time' }] })

    const [handed] = await receive(home, 1, { consumer: 'agent' })
    expectMatch(handed, { text: 'for an agent', redelivered: true })

    // The user writes: what waited goes out, in order, once.
    await home.say(user, 'are you still there?')
    const got = await receive(home, 1, { session: 'work' })
    expectMatch(got.at(-1), { text: 'are you still there?', from_user: user })
    await until('what waited goes out', 30_000, async () => {
      return (await shown(home, user)).length >= left.shown.length + left.waiting.length
    })
    const sent = await answered(home, 'send', { to: user, text: '我还在' })
    expectMatch(sent, { status: 'accepted', session: 'work' })
    const all = [...left.shown, ...left.waiting, { kind: 'text', text: '我还在' }]
    expectMatch(await shown(home, user), all)
    expectMatch(await home.ask(`GET /users?user_id=${user}`), [{ name: 'Anna 安娜' }])
  },
}
