/** A panel in which each page has rows, with long names, long addresses, and all that needs a person. */
import { Svc } from '../../src/index.ts'
import { owner } from '../../src/model/principal.ts'
import { receiver } from '../push/receiver.ts'
import { newFolder } from './folder.ts'
import { type TestPanel, withPanel, write } from './panel.ts'
import { freePort } from './port.ts'

const longName = 'customer-service-of-the-northern-branch'
/** Once there are keys, the panel asks for it. */
const token = 'correct-horse-battery-staple'
const deep = '/home/anna/projects/customer-service-assistant/workspace/agents/conversations/0f3a9c1e77d24b50'

export interface FullPanel extends TestPanel {
  /** The path of a chat with a draft. */
  readonly chat: string
}

export async function withFullPanel(): Promise<FullPanel> {
  await using building = new AsyncDisposableStack()
  const panel = building.use(
    await withPanel({
      sessions: ['default', longName, 'expired-account-of-the-shop', 'expired-too'],
      token,
      rest: 'http://127.0.0.1:8000',
      config: { backupTo: building.use(newFolder()).path, backupEvery: 86_400_000, backupKeep: 7 },
    }),
  )
  const { gateway, sandbox, bots, clock } = panel
  const hook = building.use(receiver())
  const { user_id: user } = bots.get('default')!
  const { user_id: other } = bots.get(longName)!
  await write(panel, 'Could you look at the invoice again, please? 请再看一下发票。')
  await write(panel, `https://example.com/${'a-very-long-path-without-a-break/'.repeat(6)}`, longName)
  await sandbox.bulk(120, 'Message {n} of a usual length, as people write them.', bots.get(longName)!.bot_id)
  await gateway.users.name({ user_id: user, name: 'Wolfeschlegelsteinhausenbergerdorff-Hohenlohe' })
  await gateway.users.name({ user_id: other, name: '北方分店的客户服务经理王小明先生' })
  for (let nth = 0; nth < 30; nth++) await write(panel, nth === 0 ? 'Hello?' : `Hello? ${nth}`)

  const { webhooks, keys, topics, invitations } = gateway
  await webhooks.add(owner, { url: hook.url, allow_private: true, replies: true })
  const url = `http://127.0.0.1:${freePort()}/automation/${'workflows/'.repeat(9)}incoming`
  const failing = await webhooks.add(owner, { url, allow_private: true, headers: { 'X-Key': 'hush' } })
  await keys.add({ name: '值班同事', can: ['operate'], expires_at: Date.now() + 2 * 86_400_000 }, owner)
  await topics.add(owner, { name: 'monitoring-of-the-northern-branch', to: [user] })
  await gateway.relayClients.add(owner, { name: 'openclaw-of-the-northern-branch', session: longName })
  await invitations.add(owner, { name: 'colleagues-of-the-northern-branch', max_uses: 5 })

  const { key } = await keys.add({ name: 'n8n-production-workflow-draft-bot', can: ['draft'] }, owner)
  const text = 'The invoice is right. I have checked it twice, with the office.'
  const by = await keys.authenticate(key)
  await panel.send({ text, to: user, approval: 'draft' }, { ...(by && { by }) })
  await panel.send({ to: other, text: 'Shall I?', approval: 'nobody' })
  for (const name of ['expired-account-of-the-shop', 'expired-too'])
    sandbox.world.people.expire(bots.get(name)!.bot_id)

  const svc = await Svc.open({ basePath: panel.dir, store: true, upstreamUrl: sandbox.url })
  building.defer(() => svc.close())
  const work = await svc.workAsAgent()
  await work.claimAgent('coding-assistant-of-the-northern-branch')
  const talk = { agent: 'coding-assistant-of-the-northern-branch', session: 'default', user }
  const turn = await work.addTurn({ ...talk, source: 'inject', messages: [], prompt: 'Tidy up' })
  await work.claim(talk)
  await work.changeTurn(turn.id, { status: 'running', started_at: clock.now() })
  await work.saveState(talk, { agent_session: '5f1c9c1e-0b7e-4c44-9a53-b7c8d4a1e6f0', folder: deep })
  for (const text of [
    `execute: rm -rf ${deep}/build; in ${deep}`,
    `Write ${deep}/a-file-with-a-long-name.txt`,
  ])
    await work.ask({
      turn: turn.id,
      text,
      options: [
        { id: 'always', name: 'Allow always in this folder and below', kind: 'allow_always' },
        { id: 'once', name: 'Allow', kind: 'allow_once' },
        { id: 'no', name: 'Reject', kind: 'reject_once' },
      ],
      code: text.slice(0, 2).toUpperCase(),
      expires_at: clock.now() + 290_000,
    })
  await panel.until('two accounts are expired, and a webhook fails', async () => {
    clock.advance(1000)
    const sessions = await panel.gateway.accounts.list()
    const expired = sessions.filter(({ status }) => status === 'expired').length
    return expired === 2 && (await webhooks.get(owner, failing.id)).status === 'failing'
  })
  const all = building.move()
  return {
    ...panel,
    async open(options) {
      const page = await panel.open(options)
      await page.locator('.token input').fill(token)
      await page.keyboard.press('Enter')
      await page.getByRole('navigation').waitFor()
      return page
    },
    chat: `/conversations/default/${encodeURIComponent(user)}`,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
