/** Processes that work on turns of agents, killed wherever they are: no turn is lost, made twice or worked on twice. */
import { expect, test } from 'bun:test'
import { onEachShared } from './engines.ts'
import { insert, message } from './support.ts'

const kills = Number(process.env.AGENT_KILLS) || 60
const agent = 'home'
const users = ['u0', 'u1', 'u2', 'u3']

/**
 * Adds a turn for each message of its user that has none yet, in groups of any size, and works on every turn: it says
 * where it is, so that what two processes did at the same time would show.
 */
const body = `
  const { agents } = store
  const say = line => process.stdout.write(line + '\\n')
  await agents.claimAgent('${agent}')
  say('works')
  for (;;) {
    const rows = await store.log.listAfter(0, { limit: 1000 })
    for (const user of ${JSON.stringify(users)}) {
      const own = rows.filter(row => row.peer === user).map(row => row.id)
      const size = 1 + Math.floor(Math.random() * 3)
      const messages = own.slice(-size)
      if (messages.length > 0)
        await agents.addTurn({ agent: '${agent}', session: 's', user, source: 'message', messages })
    }
    for (const key of await agents.listWork('${agent}')) {
      const claimed = await agents.claim(key)
      if (!claimed) continue
      for (const turn of claimed.turns) {
        const now = Date.now()
        if (turn.status === 'running') {
          if (await agents.changeTurn(turn.id, { status: 'interrupted', ended_at: now })) say('interrupted ' + turn.id)
          continue
        }
        if (turn.status === 'waiting') {
          if (!(await agents.changeTurn(turn.id, { status: 'running', started_at: now }))) continue
          say('running ' + turn.id)
          await new Promise(resolve => setTimeout(resolve, 5))
          await agents.changeTurn(turn.id, { status: 'answering', answer: { parts: [{ text: 'a' }] } })
        }
        if (await agents.changeTurn(turn.id, { status: 'answered', parts_sent: 1, ended_at: now })) say('answered ' + turn.id)
      }
      await agents.release(key)
    }
    await new Promise(resolve => setTimeout(resolve, 1))
  }`

onEachShared((newPlace, share) => {
  const rounds = Math.ceil(kills * share)
  test(`${rounds} kills of two processes on the same turns`, async () => {
    const place = newPlace()
    await using storage = await place.open()
    const said: string[] = []
    const start = () => {
      const child = place.start(body)
      const works = Promise.withResolvers<void>()
      const reading = (async () => {
        let text = ''
        for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
          text += chunk
          works.resolve()
        }
        // The last line may be cut.
        said.push(...text.split('\n').slice(0, -1))
      })()
      const kill = async () => {
        await works.promise
        await Bun.sleep(Math.random() * 600)
        child.kill('SIGKILL')
        await child.exited
        await reading
      }
      return kill
    }
    const running = [start(), start()]
    const written: number[] = []
    for (let round = 0; round < rounds; round++) {
      const texts = users.map(from_user => message(`${round}`, { from_user }))
      written.push(...((await insert({ storage }, texts)) as number[]))
      const nth = round % running.length
      await running[nth]!()
      running[nth] = start()
    }
    const list = () => storage.store.agents.listTurns({ limit: 10_000 })
    const isOver = async () =>
      (await list()).every(({ status }) => status === 'answered' || status === 'interrupted')
    for (let tries = 0; tries < 600 && !(await isOver()); tries++) await Bun.sleep(100)
    for (const kill of running) await kill()
    const turns = await list()
    expect(await isOver()).toBe(true)
    const inTurns = turns.flatMap(({ messages }) => messages)
    // A message is in one turn at most, and each turn began once.
    expect(inTurns.length).toBe(new Set(inTurns).size)
    const begun = said.filter(line => line.startsWith('running'))
    expect(begun.length).toBe(new Set(begun).size)
    const ended = said.filter(line => /^(answered|interrupted)/.test(line)).map(line => line.split(' ')[1])
    expect(ended.length).toBe(new Set(ended).size)
    const states = Map.groupBy(turns, ({ status }) => status)
    const count = (state: 'answered' | 'interrupted') => states.get(state)?.length ?? 0
    console.log(`${turns.length} turns: ${count('answered')} answered, ${count('interrupted')} interrupted`)
    expect(count('answered')).toBeGreaterThan(rounds / 4)
    expect(written.length).toBe(rounds * users.length)
  }, 600_000)
})
