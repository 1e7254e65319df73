/**
 * Programs that notify a topic, and send what is said to it, are killed at random moments. What was accepted was sent,
 * waits, or is named as something that may not have arrived; svc sends nothing twice. `KILLS=50` makes less of them.
 */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { Svc } from '../../src/index.ts'
import { folderOfTest } from '../support/folder.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { until } from '../support/until.ts'

const kills = Number(process.env.KILLS) || 200
const hour = 3_600_000

/** A program that polls and sends, or takes that over; it notifies up to 10 times, and prints what was accepted. */
const script = (dir: string, sandboxUrl: string, name: string) => `
  const { Svc } = await import('${join(import.meta.dir, '../../src/index.ts')}')
  const svc = await Svc.open({ basePath: '${dir}', store: true, sandboxUrl: '${sandboxUrl}', pace: 'off' })
  await svc.runBackground()
  for (let nth = 0; nth < 10; nth++) {
    const text = 'n${name}-' + nth + '.'
    await svc.topics.notify('home', text, { priority: nth % 3 ? 'default' : 'high' })
    console.log(text)
    await Bun.sleep(Math.random() * 60)
  }
  setInterval(() => {}, 60_000)`

function start(...args: Parameters<typeof script>) {
  const child = Bun.spawn([process.execPath, '-e', script(...args)], { stdout: 'pipe', stderr: 'pipe' })
  let out = ''
  const reading = (async () => {
    for await (const bytes of child.stdout) out += new TextDecoder().decode(bytes)
  })()
  return {
    begun: () => until('something was accepted', 60_000, () => out !== ''),
    async kill() {
      child.kill('SIGKILL')
      await child.exited
      await reading
      return out.split('\n').filter(line => line !== '')
    },
  }
}

/** What the person sees: what came, and what is said of it later. */
async function seenBy(
  sandbox: TestSandbox,
): Promise<{ came: string[]; doubted: Set<string>; counted: number }> {
  const messages = await sandbox.messages({ from: 'bot', limit: 100_000 })
  const lines = messages.flatMap(({ items }) => items.flatMap(({ text = '' }) => text.split('\n')))
  const named = (some: string[]) => some.flatMap(line => [...new Set(line.match(/n\d+[ab]-\d+\./g))])
  const isDoubt = (line: string) => line.startsWith('May not have arrived')
  return {
    came: named(lines.filter(line => !isDoubt(line))),
    doubted: new Set(named(lines.filter(isDoubt))),
    counted: lines.reduce((sum, line) => sum + Number(/others ×(\d+)$/.exec(line)?.[1] ?? 0), 0),
  }
}

test(
  `${kills} kills: what was accepted was sent once, or is named as what may not have arrived`,
  async () => {
    await using sandbox = await withSandbox()
    const dir = folderOfTest()
    const open = () => Svc.open({ basePath: dir, store: true, sandboxUrl: sandbox.url, pace: 'off' })
    const person = await sandbox.addUser('Mum')
    {
      await using svc = await open()
      const waiting = await svc.login()
      await sandbox.scanAndConfirm({ qrcode: waiting.qr_url!, user: person })
      await until('logged in', 30_000, async () => (await svc.login({ timeout: 2 })).status === 'confirmed')
      await svc.topics.add('home', { to: [person], keep_seconds: 7 * 86_400 })
    }
    const accepted: string[] = []
    for (let round = 0; round < kills / 2; round++) {
      await sandbox.say('go on', { from: person })
      // Then the next urgent one goes at once.
      await sandbox.advance(hour / 2)
      const both = ['a', 'b'].map(one => start(dir, sandbox.url, `${round}${one}`))
      for (const one of both) {
        await one.begun()
        await Bun.sleep(Math.random() * 2500)
        accepted.push(...(await one.kill()))
      }
    }
    await using svc = await open()
    await svc.runBackground()
    await until('nothing waits', 120_000, async () => {
      await sandbox.say('go on', { from: person })
      await sandbox.advance(hour / 2)
      // The next look of the process comes within a second.
      await Bun.sleep(1500)
      const { notices, waiting } = await svc.topics.get('home')
      return waiting === 0 && notices.every(({ status }) => status === 'unknown')
    })
    const { notices } = await svc.topics.get('home')
    const { came, counted, doubted } = await seenBy(sandbox)
    const shown = new Set([...doubted, ...notices.map(({ name }) => name)])
    console.log({ accepted: accepted.length, came: came.length, counted, doubted: shown.size })
    expect(accepted.length).toBeGreaterThan(kills)
    expect(came).toEqual([...new Set(came)])
    const missing = accepted.filter(one => !came.includes(one) && !shown.has(one))
    // Where very much waited, the last ones are only counted.
    expect(missing.slice(counted)).toEqual([])
  },
  { timeout: 3_600_000 },
)
