/** What every engine's leases must do (`src/storage/leases.ts`), on those there are. */
import { expect } from 'bun:test'
import { until } from '../support/until.ts'
import { onEach } from './engines.ts'
import { bot } from './support.ts'

onEach(it => {
  it('a held right is not granted to another process until it is released', async t => {
    await using second = await t.second()
    const [one, other] = [t.storage.leases, second.storage.leases]
    const lease = await one.join()
    expect(lease!.mayPoll('s')).toBe(true)
    expect(await other.join()).toBeUndefined()
    await lease!.release()
    expect(lease!.mayPoll('s')).toBe(false)
    const next = await other.join()
    expect(next!.mayPoll('s')).toBe(true)
    await lease!.release()
    expect(next!.mayPoll('s')).toBe(true)
    expect(await one.join()).toBeUndefined()
    await next!.release()
  })

  it('joining again gives a new lease; the previous one grants nothing', async t => {
    const { leases } = t.storage
    const before = await leases.join()
    await before!.release()
    const again = await leases.join()
    expect([before!.mayPoll('s'), again!.mayPoll('s')]).toEqual([false, true])
    expect(again!.lost.aborted).toBe(false)
  })

  it('closing releases the lease', async t => {
    await using second = await t.second()
    const [one, other] = [t.storage.leases, second.storage.leases]
    await one.join()
    await one.close()
    await one.close()
    expect(await other.join()).toBeDefined()
  })

  it('a lease lists the current sessions, and the changes since a revision', async t => {
    const { leases, state } = t.storage
    const lease = await leases.join()
    expect((await lease!.listOwned()).changed.size).toBe(0)
    await state.sessions.save('a', bot('a'))
    const first = await lease!.listOwned()
    await state.sessions.save('b', bot('b'))
    expect([...(await lease!.listOwned()).changed.keys()].sort()).toEqual(['a', 'b'])
    let { changed, revision } = await lease!.listOwned(first.revision)
    expect(changed.has('b')).toBe(true)
    // A write of a moment ago may be reported twice.
    await until('nothing changes any more', 5000, async () => {
      ;({ changed, revision } = await lease!.listOwned(revision))
      return changed.size === 0
    })
  })

  it('a process that has just joined does not count as stalled', async t => {
    await using second = await t.second()
    const [one, other] = [t.storage.leases, second.storage.leases]
    expect(await other.findHolder()).toBeUndefined()
    const lease = (await one.join())!
    expect(await other.join()).toBeUndefined()
    expect(await other.isStalled()).toBe(false)
    expect(await other.findHolder()).toBe(process.pid)
    await lease.release()
    expect(await other.findHolder()).toBeUndefined()
  })
})
