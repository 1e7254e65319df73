/**
 * What the programs that agents run in put before their model: each as published on npm, with the settings that svc setup
 * writes, a model on loopback in place of its maker's, and a backlog longer than any of them shows at once.
 */
import { expect, test } from 'bun:test'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installed, type Program, programs, prompted } from '../support/agents.ts'
import { withGateway } from '../support/gateway.ts'
import { startMcp, upstreamFlags } from '../support/mcp.ts'
import { withSandbox } from '../support/sandbox.ts'
import { type Shown, type StandIn, type Step, standInModel } from '../support/stand-in-model.ts'
import { svcProgram } from '../support/svc-program.ts'

const backlog = 90
/** As JSON text it is far longer, and some cut that. Not so long that Gemini, after 30 turns, asks its model for loops. */
const words = '"x\\'.repeat(220)

/** What people say when they want a tool, for programs that hide tools behind a search. */
const wanted: readonly (readonly [words: string, tool: string])[] = [
  ['read my messages', 'recv'],
  ['check my WeChat inbox', 'recv'],
  ['weixin unread', 'recv'],
  ['reply to my friend', 'send'],
  ['text my wife', 'send'],
  ['send a photo', 'send'],
  ['search the chat history', 'history'],
  ['old conversation with Mum', 'history'],
  ['save the picture that she sent', 'download'],
  ['connect my WeChat account', 'login'],
  ['scan a QR code', 'login'],
  ['which accounts are connected', 'sessions'],
]

/** Before the words of other people; an answer without it brings none. */
const opening = '<wechat-messages boundary='

/** One error, one picture, then all that people wrote. No call is like the one before: some take that for a loop. */
function script(shown: readonly Shown[]): Step {
  if (shown.length === 0) return { tool: 'download', input: { message_id: '1' } }
  if (shown.length === 1) return { tool: 'login', input: { session_name: 'new', timeout: 0 } }
  if (shown.length > 60 || (shown.length > 2 && !shown.at(-1)?.text.includes(opening))) return { say: 'done' }
  return { tool: 'recv', input: { timeout: 0, limit: 200 - shown.length } }
}

const had = await Promise.all(
  programs.map(async program => ({ program, ...(await installed(program.spec, program.bin)) })),
)

for (const { program, ...found } of had) {
  const folder = 'folder' in found ? found.folder : undefined
  if ('why' in found) console.warn(`skipped: npm does not give ${program.spec}: ${found.why}`)
  test.skipIf(folder === undefined).each(['stdio', 'url'] as const)(
    `${program.name} over %s shows its model marks, picture and error, and a backlog arrives whole, each once`,
    door => reads(program, folder!, door),
    240_000,
  )
}

async function reads(program: Program, folder: string, door: 'stdio' | 'url'): Promise<void> {
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-agent-')))
  await using sandbox = await withSandbox()
  const model = standInModel(
    script,
    // A search may come back before the server is there.
    ['svc', 'svc', 'svc', ...wanted.map(([said]) => said)],
  )
  const data = join(home, 'data')
  try {
    {
      await using t = await withGateway({ sandbox, dir: data })
      for (let at = 0; at < backlog; at++) await sandbox.say(`${at}:${words}`)
      await t.until('all are stored', async () => {
        const { total } = await t.gateway.history.page({ limit: 1, offset: 0 })
        return total === backlog
      })
    }
    await using service = door === 'url' ? await startMcp('openapi', { sandbox, dir: data }) : undefined
    const start = [...svcProgram, 'mcp', '-t', 'stdio']
    const server = service
      ? { url: service.url, bridge: [...start, '--url', service.url] }
      : { command: [...start, '-d', data, ...upstreamFlags(sandbox)] }
    const run = await prompted(program, { home, folder, model: model.url, server })
    expectRead(program, model, `${run.status}\n${run.stdout.slice(-2000)}\n${run.stderr.slice(-2000)}`)
  } finally {
    model.stop()
    await rm(home, { recursive: true, force: true, maxRetries: 10 })
  }
}

function expectRead({ isBlind }: Program, model: StandIn, said: string): void {
  expect(model.offered.size, said).toBeGreaterThan(0)
  for (const [words, tool] of wanted) {
    const found = model.found.get(words)
    if (model.found.size > 0) expect([words, found]).toEqual([words, expect.arrayContaining([tool])])
  }
  const [error, picture, ...received] = model.shown
  if (received.at(-1)?.text.includes(opening) ?? true)
    throw new Error(`${model.shown.length} calls, ${[...model.offered]}, then: ${said}`)
  expect(error!.text).toContain('message_not_found')
  expect(picture!.pictures).toBe(isBlind ? 0 : 1)
  expect(picture!.text).toContain('status: waiting')
  const numbers = received.flatMap(({ text }) =>
    [...text.matchAll(/^> (\d+):(.+)$/gm)].filter(([, , x]) => x === words).map(([, at]) => Number(at)),
  )
  expect(numbers).toEqual(Array.from({ length: backlog }, (_none, at) => at))
  for (const { text } of received.slice(0, -1)) {
    const [, boundary] = /^<wechat-messages boundary="(\w+)">$/m.exec(text)!
    expect(text).toContain(`</wechat-messages boundary="${boundary}">`)
    // It is named before them too, where they are said to be nobody's instructions.
    expect(text.split(boundary!).length).toBeGreaterThan(3)
  }
}
