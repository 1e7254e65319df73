/** The right to poll in SQLite's directory, and a process that is killed with it. */
import { expect } from 'bun:test'
import type { Lease } from '../../../src/storage/leases.ts'
import { given } from '../../support/given.ts'
import { until } from '../../support/until.ts'
import { openSqlite, startOnDirectory } from './support.ts'

const it = given(openSqlite)

it('the right of a killed holder is free immediately', async t => {
  const { leases } = t.storage
  for (let round = 0; round < 3; round++) {
    const holder = startOnDirectory(
      t.dir,
      `console.log((await storage.leases.join()) ? 'joined' : 'not ours')
      await hold()`,
    )
    const said = await holder.stdout.getReader().read()
    expect(new TextDecoder().decode(said.value).trim()).toBe('joined')
    expect(await leases.join()).toBeUndefined()
    holder.kill('SIGKILL')
    await holder.exited
    let lease: Lease | undefined
    await until('the right is free', 10_000, async () => {
      lease = await leases.join()
      return lease !== undefined
    })
    await lease!.release()
  }
})
