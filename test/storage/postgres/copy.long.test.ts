/** `svc store copy` of 100,000 messages, killed at random moments and carried on: nothing is lost, at no moment can both sides be opened. */
import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connectPg } from '../../../src/platform/postgres.ts'
import { sql } from '../../../src/platform/sql.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { folderOfTest } from '../../support/folder.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { svcProgram } from '../../support/svc-program.ts'
import { dumpDatabase, dumpDirectory, fillDirectory, insertMany, isOpenable, move } from './copy-support.ts'

const messages = 100_000

describe.skipIf(!isPostgresThere())('svc store copy of a large store', () => {
  test.each(['to', 'from'] as const)(
    'killed at random moments on its way %s PostgreSQL, it is carried on',
    async way => {
      const folder = folderOfTest()
      const [first, back] = [join(folder, 'first'), join(folder, 'back')]
      await fillDirectory(first)
      await insertMany(first, messages)
      const rows = dumpDirectory(first)
      await using database = await newDatabase()
      const { url } = database
      if (way === 'from') {
        const began = performance.now()
        await move(first, url)
        console.info(`${messages} messages: ${Math.round(performance.now() - began)} ms`)
      }
      const files = { url: join(folder, 'url'), key: join(folder, 'key') }
      writeFileSync(files.url, `${url}\n`, { mode: 0o600 })
      writeFileSync(files.key, `${secret}\n`, { mode: 0o600 })
      const [dir, args] = way === 'to' ? [first, [first, 'postgres']] : [back, ['postgres', back]]
      const command = [...svcProgram, 'store', 'copy', ...args, '--json']
      const options = ['--store-url-file', files.url, '--secret-key-file', files.key]
      let status: number | null = null
      let kills = 0
      for (let longest = 2000; status !== 0; longest *= 1.3) {
        const child = Bun.spawn([...command, ...options], {
          env: { PATH: process.env.PATH ?? '', HOME: folder },
          stdout: 'ignore',
          stderr: 'pipe',
        })
        const timer = setTimeout(() => child.kill('SIGKILL'), Math.random() * longest)
        await child.exited
        clearTimeout(timer)
        status = child.exitCode
        if (child.signalCode === 'SIGKILL') kills++
        else
          expect({ status, stderr: await new Response(child.stderr).text() }).toEqual({
            status: 0,
            stderr: '',
          })
        const open = [await isOpenable(dir, way === 'from'), await isDatabaseOpenable(url)]
        expect(open.filter(Boolean).length).toBeLessThanOrEqual(1)
        if (status === 0) expect(open).toEqual(way === 'to' ? [false, true] : [true, false])
      }
      expect(kills).toBeGreaterThan(0)
      const copied = way === 'to' ? await dumpDatabase(url) : dumpDirectory(back)
      // However often it was killed, the log says once that the store was moved.
      const isMove = (line: string) => line.includes('move_store')
      for (const name of ['audit', 'event']) {
        expect(copied[name]!.filter(isMove)).toHaveLength(1)
        copied[name] = copied[name]!.filter(line => !isMove(line))
      }
      expect(copied).toEqual(rows)
    },
    600_000,
  )
})

/** Whether a node may join. */
async function isDatabaseOpenable(url: string): Promise<boolean> {
  const connection = await connectPg({ url, name: 'tests', answerMs: 60_000 })
  try {
    const { open } = await connection.one<{ open: boolean }>(
      sql`SELECT moved_to IS NULL AND copying IS NULL AND EXISTS (SELECT 1 FROM svc.account) AS open FROM svc.meta`,
    )
    return open
  } finally {
    connection.destroy()
  }
}
