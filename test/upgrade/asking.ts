/** What waits for a person: questions, drafts, and what agents do. */
import { expectMatch } from '../../scripts/smoke/expected.ts'
import type { Json } from '../support/service.ts'
import { until } from '../support/until.ts'
import { type Beside, type Home, join, type Story, shown } from './home.ts'

/** A question that an answer from the phone decides. */
export const questions: Story = {
  async live(home) {
    const user = await join(home, 'asks', 'Olga')
    await home.say(user, 'ask me')
    const question = { to: user, session: 'asks', text: 'Deploy?', choices: ['yes', 'no'], timeout: 86_400 }
    const { id } = await home.ask('POST /questions', question)
    await until('the question is shown', 30_000, async () => (await shown(home, user)).length > 0)
    return { user, id }
  },
  async still(home, { id, user }) {
    expectMatch(await home.ask(`GET /questions/${id}`), { status: 'open' })
    await home.say(user, 'yes')
    expectMatch(await home.ask(`GET /questions/${id}?wait=20`), { status: 'answered', choice: 'yes' })
  },
}

/** A message that a program wrote, and that goes out only when a person approves it. */
export const drafts: Story = {
  async live(home) {
    const user = await join(home, 'drafts', 'Dora')
    await home.say(user, 'write to me')
    const { key } = await home.ask('POST /keys', { name: 'drafter', can: ['draft'] })
    const answer = await fetch(`${home.url}/tools/default/send`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ to: user, session: 'drafts', text: 'a draft' }),
    })
    const { outbox_id } = (await answer.json()) as Json
    return { user, id: outbox_id }
  },
  async still(home, { id, user }) {
    expectMatch(await shown(home, user), [])
    await home.ask(`POST /outbox/${id}/approve`, {})
    await until('the draft is sent', 30_000, async () => (await shown(home, user)).length > 0)
    expectMatch(await shown(home, user), [{ text: 'a draft' }])
  },
}

/** An agent: what it did, and the question that it asked when it ended. */
export const agents: Story = {
  async live(home) {
    const user = await join(home, 'agent', 'Albert')
    {
      await using agent = await runs(home, 'agent')
      await home.say(user, 'hello agent')
      await until('the agent answers', 30_000, async () => (await shown(home, user)).length > 0, agent.output)
      await home.say(user, 'ask')
      await until('the agent asks', 30_000, async () => (await home.ask('GET /agents/questions')).length > 0)
    }
    return { user, turns: await turnsOf(home), shown: await shown(home, user) }
  },
  async still(home, left) {
    expectMatch(await turnsOf(home), left.turns)
    expectMatch(await shown(home, left.user), left.shown)
    await using _agent = await runs(home, 'agent')
    await home.say(left.user, 'are you there, agent?')
    await until('the agent goes on', 30_000, async () => {
      const all = await shown(home, left.user)
      return all.some(({ text }) => text.includes('You said: are you there, agent?'))
    })
  },
}

async function runs(home: Home, session: string): Promise<Beside> {
  const args = ['--session', session, '--gather', '0.1', '--acp', '--', 'svc', 'echo-agent', '--acp']
  const agent = home.beside('agent', ...args)
  await agent.says(/may talk|answers/)
  // What came before it reads is not for it.
  await until(
    'the agent reads',
    30_000,
    async () => (await home.ask('GET /consumers')).some(({ name }: Json) => name === 'agent-agent'),
    agent.output,
  )
  return agent
}

const turnsOf = async (home: Home) =>
  (await home.ask('GET /agents/turns')).map(({ id, agent, status, answer }: Json) => ({
    id,
    agent,
    status,
    answer,
  }))
