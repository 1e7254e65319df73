/** Faults of a database that last longer than those of `database-outages.long.test.ts`. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isPostgresThere } from '../support/postgres.ts'
import { giveToServer } from '../support/postgres-program.ts'
import { until } from '../support/until.ts'
import { healthMs, Trial } from './support/database-trial.ts'

const mount = (...args: string[]) => Bun.spawnSync(['mount', ...args]).exitCode === 0

describe.skipIf(!isPostgresThere())('a database that misbehaves for longer', () => {
  let trial: Trial
  beforeAll(async () => {
    trial = await Trial.start()
  }, 240_000)
  afterAll(() => trial?.[Symbol.asyncDispose]())

  test('it is frozen', async () => {
    await trial.bear({
      begin: () => trial.cluster.postgres.pause(),
      said: /does not answer/,
      hint: /recovers by itself/,
      end: () => trial.cluster.postgres.resume(),
    })
  }, 240_000)

  test('the network to it holds everything', async () => {
    await trial.bear({
      begin: async () => trial.node.database.freeze(),
      said: /does not answer/,
      hint: /recovers by itself/,
      end: async () => trial.node.database.thaw(),
    })
  }, 240_000)

  test('a second a statement: it is said, and everything goes on', async () => {
    // After the last fault it may be well before it polls again, which at this pace takes it a while.
    await until('it polls', 60_000, async () => {
      const { body } = await trial.health()
      return body.role === 'poller' && body.failing_tasks === undefined
    })
    trial.node.database.delay(1000)
    try {
      let last = await trial.health()
      await until('the health says it', 60_000, async () => {
        last = await trial.health()
        return /the database is slow: a commit took [1-9]/.test(last.body.trouble?.message ?? '')
      })
      expect(last.status).toBe(200)
      expect(last.body).toMatchObject({ store: 'ok', status: 'degraded', role: 'poller' })
      for (let nth = 0; nth < 5; nth++) {
        const sent = await trial.send()
        expect(sent.status).toBeLessThan(500)
        // At a second a statement, a busy machine may not answer within the time of a health check.
        await until('it is healthy enough', 60_000, async () => {
          const { status, tookMs, body } = await trial.health()
          expect([body.role, tookMs < 5 * healthMs]).toEqual(['poller', true])
          return status === 200
        })
      }
    } finally {
      trial.node.database.delay(0)
    }
    await until('it is well again', 60_000, async () => (await trial.health()).body.status === 'ok')
  }, 240_000)

  test('its disk is full', async () => {
    const place = mkdtempSync(join(tmpdir(), 'svc-small-'))
    if (!mount('-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', place)) {
      rmSync(place, { recursive: true })
      return
    }
    const filler = join(place, 'filler')
    try {
      giveToServer(place)
      const { name } = trial
      await trial.admin(`CREATE TABLESPACE small LOCATION '${place}'; GRANT CREATE ON TABLESPACE small TO svc;
        ALTER DATABASE ${name} ALLOW_CONNECTIONS false;`)
      await trial.endConnections()
      await until('the database is moved', 60_000, () =>
        trial.admin(`ALTER DATABASE ${name} SET TABLESPACE small`).then(
          () => true,
          () => false,
        ),
      )
      await trial.admin(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`)
      await until('it works', 60_000, async () => (await trial.health()).body.status === 'ok')
      await trial.bear({
        begin: async () => void Bun.spawnSync(['dd', 'if=/dev/zero', `of=${filler}`, 'bs=4k']),
        also: () => trial.receiveMuch(),
        isNoticed: false,
        said: /the disk of the database is full \(53100\)/,
        hint: /Free some space/,
        end: async () => rmSync(filler),
      })
    } finally {
      await trial.cluster.postgres.stop('immediate')
      Bun.spawnSync(['umount', place])
      rmSync(place, { recursive: true, force: true })
    }
  }, 240_000)
})
