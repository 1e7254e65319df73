/**
 * Clients that are stopped at a random moment around an answer, and then killed: what they did not read comes to the next
 * client. Clients that end in order get nothing twice.
 */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { type ClientKind, startMcp } from '../support/mcp.ts'
import { overhear } from '../support/overheard.ts'
import { withSandbox } from '../support/sandbox.ts'
import { storeVariablesOf } from '../support/shared-store.ts'
import { until } from '../support/until.ts'

const program = join(import.meta.dirname, '../support/reading-client.ts')
const rounds = 20
/** Clients at the same time. */
const atOnce = 5

type Door = 'stdio' | 'http' | 'bridge'
const cases = (['stdio', 'http', 'bridge'] as const).flatMap(door =>
  (door === 'bridge' ? (['2025', 'sdk1'] as const) : (['2025', '2026', 'sdk1'] as const)).map(
    kind => [door, kind] as const,
  ),
)

test.each(cases)(
  'over %s, a client of %s: 20 random kills lose nothing, and an orderly end repeats nothing',
  async (door, kind) => {
    await using sandbox = await withSandbox()
    const dir = folderOfTest()
    {
      await using _account = await withGateway({ sandbox, dir, start: false })
    }
    await using service = await startMcp('http', { sandbox, dir, args: ['--structured'] })
    const env = {
      ...{ PATH: process.env.PATH ?? '', HOME: dir, TEST_UPSTREAM: sandbox.url, TEST_CDN: sandbox.cdnUrl },
      ...(process.env.SVC_TEST_PROGRAM && { SVC_TEST_PROGRAM: process.env.SVC_TEST_PROGRAM }),
      ...(await storeVariablesOf(dir)),
    }
    const start = (door: Door, kind: ClientKind, consumer: string, leave = false) => {
      const target = door === 'stdio' ? dir : service.url
      const args = [process.execPath, program, kind, door, target, consumer, ...(leave ? ['leave'] : [])]
      const child = Bun.spawn(args, { env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
      return { child, consumer, output: overhear(child) }
    }
    type Reader = ReturnType<typeof start>
    const said = ({ output }: Reader, line: string) => output.stdout.split('\n').includes(line)
    const isCalling = async (readers: Reader[]) =>
      until('all wait', 60_000, () => readers.every(reader => said(reader, 'calling'))).catch(error => {
        throw new Error(readers.map(({ output }) => output.stderr).join('\n'), { cause: error })
      })
    let read = 0
    const lost: string[] = []
    for (let round = 0; round < rounds; round += atOnce) {
      const text = `message of round ${round}`
      const readers = Array.from({ length: atOnce }, (_, at) => start(door, kind, `c${round + at}`))
      await isCalling(readers)
      // Before the answer, while it is on its way, or after it was read.
      const saying = sandbox.say(text)
      await Promise.all(
        readers.map(async ({ child }) => {
          await Bun.sleep(Math.random() * 300)
          child.kill('SIGSTOP')
        }),
      )
      await saying
      await Bun.sleep(300)
      for (const { child } of readers) child.kill('SIGKILL')
      await Promise.all(readers.map(({ child }) => child.exited))
      const unread = readers.filter(reader => !said(reader, `read ${text}`))
      read += readers.length - unread.length
      const next = unread.map(({ consumer }) => start(door, kind, consumer, true))
      await until('each is done', 100_000, () => next.every(({ child }) => child.exitCode !== null)).catch(
        () => {},
      )
      for (const reader of next)
        if (!said(reader, `read ${text}`) && !said(reader, `again ${text}`))
          lost.push(`${reader.consumer} ${text}`)
      for (const { child } of next) child.kill('SIGKILL')
    }
    console.log(
      `${door} ${kind}: ${read} of ${rounds} had read, ${rounds - read} got it from the next client`,
    )
    expect(lost).toEqual([])
    // In order, twice in a row.
    for (let run = 0; run < 3; run++) {
      const reader = start(door, kind, 'orderly', true)
      await isCalling([reader])
      const text = `orderly ${run}`
      await sandbox.say(text)
      expect([await reader.child.exited, reader.output.stderr]).toEqual([0, ''])
      expect(reader.output.stdout.split('\n').filter(line => /^(read|again)/.test(line))).toEqual([
        `read ${text}`,
      ])
    }
  },
  600_000,
)
