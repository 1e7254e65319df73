/**
 * Agent programs that read a message as the last thing they do, or are killed around that moment: each as published on
 * npm, with a model on loopback in place of its maker's.
 */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installed, type Program, programs, prompted } from '../support/agents.ts'
import { end, family } from '../support/family.ts'
import { withGateway } from '../support/gateway.ts'
import { connectHttp, connectStdio, startMcp, upstreamFlags } from '../support/mcp.ts'
import { withSandbox } from '../support/sandbox.ts'
import { standInModel } from '../support/stand-in-model.ts'
import { svcProgram } from '../support/svc-program.ts'

type Door = 'stdio' | 'url'
/** The message that each run finds. */
const said = 'the door bell rang'
/** After this time a service counts a client without a sign of life as gone. */
const goneMs = 66_000
/** Kills of these programs, at random moments; others are only seen to end by themselves. */
const kills = { 'claude-code': 20, codex: 20 } as Readonly<Record<string, number>>
const atOnce = 4

const found = await Promise.all(
  programs.map(async program => ({ program, ...(await installed(program.spec, program.bin)) })),
)
for (const { program, ...rest } of found) {
  const folder = 'folder' in rest ? rest.folder : undefined
  if ('why' in rest) console.warn(`skipped: npm does not give ${program.spec}: ${rest.why}`)
  test.skipIf(folder === undefined).each(['stdio', 'url'] as const)(
    `${program.name} over %s, recv as its last call: it gets a message at most three times, marked`,
    async door => {
      await using place = await prepare(program, folder!, door)
      const runs: string[][] = []
      for (let run = 0; run < 5; run++) {
        runs.push((await place.run()).shown)
        if (door === 'url' && run < 4 && runs.flat().length < 4) await Bun.sleep(goneMs)
        if (run > 0 && runs.at(-1)!.length === 0) break
      }
      const texts = runs.flat()
      console.log(`${program.name} over ${door}: got it ${texts.length} times`)
      expect(texts.length).toBeGreaterThan(0)
      expect(texts.length).toBeLessThan(4)
      expect(texts.map(text => text.includes('shown before'))).toEqual(texts.map((_text, at) => at > 0))
    },
    1_200_000,
  )
  const count = kills[program.name]
  if (count === undefined) continue
  test.skipIf(folder === undefined).each(['stdio', 'url'] as const)(
    `${program.name} over %s, killed ${count} times around its answer: nothing is lost`,
    async door => {
      const lost: string[] = []
      let shownCount = 0
      for (let round = 0; round < count; round += atOnce)
        await Promise.all(
          Array.from({ length: atOnce }, async (_none, at) => {
            await using place = await prepare(program, folder!, door)
            const afterMs = Math.random() * 400
            const { shown } = await place.run(afterMs)
            if (shown.length > 0) shownCount++
            else if (!(await place.next()).includes(said))
              lost.push(`${round + at}: killed after ${afterMs} ms`)
          }),
        )
      console.log(`${program.name} over ${door}: ${shownCount} of ${count} had shown it to their model`)
      expect(lost).toEqual([])
    },
    1_800_000,
  )
}

/** A data directory with one message, and what a program needs to read it. */
async function prepare(program: Program, folder: string, door: Door) {
  const home = await realpath(await mkdtemp(join(tmpdir(), 'svc-killed-')))
  const dir = join(home, 'data')
  const sandbox = await withSandbox()
  {
    await using t = await withGateway({ sandbox, dir })
    await sandbox.say(said)
    await t.until('it is stored', async () => (await t.gateway.inbox.getHead()) === 1)
  }
  const service = door === 'url' ? await startMcp('openapi', { sandbox, dir }) : undefined
  const start = [...svcProgram, 'mcp', '-t', 'stdio']
  const server = service
    ? { url: service.url, bridge: [...start, '--url', service.url] }
    : { command: [...start, '-d', dir, ...upstreamFlags(sandbox)] }
  return {
    /**
     * Lets the program call recv once. killAfterMs: it is stopped so long after its model asked for that, and then killed.
     *
     * @returns the answers with the message that its model was shown
     */
    async run(killAfterMs?: number): Promise<{ shown: string[] }> {
      const asked = Promise.withResolvers<void>()
      const model = standInModel(
        shown => {
          if (shown.length > 0) return { say: 'done' }
          asked.resolve()
          return { tool: 'recv', input: { timeout: 0 } }
        },
        ['svc', 'svc', 'svc'],
      )
      try {
        await prompted(program, { home, folder, model: model.url, server }, child => {
          if (killAfterMs === undefined) return
          void asked.promise.then(async () => {
            await Bun.sleep(killAfterMs)
            const own = family(child.pid).filter(pid => !isSvc(pid))
            for (const pid of own) end(pid, 'SIGSTOP')
            await Bun.sleep(300)
            for (const pid of own) end(pid, 'SIGKILL')
          })
        })
        return { shown: model.shown.map(({ text }) => text).filter(text => text.includes(said)) }
      } finally {
        model.stop()
      }
    },
    /** What the next client gets. */
    async next(): Promise<string> {
      await using client = service
        ? await connectHttp(service.url, { plain: true })
        : await connectStdio({ sandbox, dir, plain: true })
      // The wait is longer than what a client allows for an answer.
      const { content } = await client.call('recv', { timeout: 100 }, { timeout: 150_000 })
      return content.map(({ text }: { text?: string }) => text).join('\n')
    },
    async [Symbol.asyncDispose]() {
      await service?.[Symbol.asyncDispose]()
      await sandbox[Symbol.asyncDispose]()
      await rm(home, { recursive: true, force: true, maxRetries: 10 })
    },
  }
}

/** Whether a process is svc itself, which its client starts. */
function isSvc(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(svcProgram.join('\0'))
  } catch {
    return true
  }
}
