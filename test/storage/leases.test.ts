/** What every engine's leases must do (`src/storage/leases.ts`), on those there are. */
import { expect } from 'bun:test'
import { until } from '../support/until.ts'
import { onEach } from './engines.ts'
import { bot } from './support.ts'

onEach(it => {
  it('a held right is not granted to another process that would poll alone until it is released', async t => {
    await using second = await t.second()
    const [one, other] = [t.storage.leases, second.storage.leases]
    const lease = await one.join({ alone: true })
    expect(lease!.mayPoll()).toBe(true)
    expect(await other.join({ alone: true })).toBeUndefined()
    await lease!.release()
    expect(lease!.mayPoll()).toBe(false)
    const next = await other.join({ alone: true })
    expect(next!.mayPoll()).toBe(true)
    await lease!.release()
    expect(next!.mayPoll()).toBe(true)
    expect(await one.join({ alone: true })).toBeUndefined()
    await next!.release()
  })

  it('joining again gives a new lease; the previous one grants nothing', async t => {
    const { leases } = t.storage
    const before = await leases.join({ alone: true })
    await before!.release()
    const again = await leases.join({ alone: true })
    expect([before!.mayPoll(), again!.mayPoll()]).toEqual([false, true])
    expect(again!.lost.aborted).toBe(false)
  })

  it('closing releases the lease', async t => {
    await using second = await t.second()
    const [one, other] = [t.storage.leases, second.storage.leases]
    await one.join({ alone: true })
    await one.close()
    await one.close()
    expect(await other.join({ alone: true })).toBeDefined()
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

  it('a session that was logged out is listed as removed, and does not count as moved to another process', async t => {
    const { leases, state } = t.storage
    const lease = (await leases.join())!
    await state.sessions.save('a', bot('a'))
    const { revision } = await lease.listOwned()
    expect(lease.mayPoll('a')).toBe(true)
    await state.sessions.remove('a')
    const { changed } = await lease.listOwned(revision)
    expect([changed.has('a'), changed.get('a'), lease.mayPoll('a')]).toEqual([true, undefined, true])
  })

  it('a process that has just joined does not count as stalled', async t => {
    await using second = await t.second()
    const [one, other] = [t.storage.leases, second.storage.leases]
    expect(await other.findHolder()).toBeUndefined()
    const lease = (await one.join({ alone: true }))!
    expect(await other.join({ alone: true })).toBeUndefined()
    expect(await other.isStalled()).toBe(false)
    expect([process.pid, undefined]).toContain(await other.findHolder())
    await lease.release()
    expect(await other.findHolder()).toBeUndefined()
  })
})
