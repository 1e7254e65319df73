/** What a door tells of the calls that it answers. */
import { expect, test } from 'bun:test'
import { createLog } from '../../src/platform/log.ts'
import { observeCalls } from '../../src/server/observed.ts'

test('each accepted call has its line; those of strangers have a few together, and are counted all the same', async () => {
  const lines: string[] = []
  let counted = 0
  const answering = observeCalls(
    (request, peer) => {
      const isKnown = request.headers.has('authorization')
      if (isKnown) peer?.accept()
      return new Response(null, { status: isKnown ? 200 : 401 })
    },
    {
      gateway: { metrics: { answered: () => void counted++ } as never },
      log: createLog('INFO', line => void lines.push(line)),
    },
    () => undefined,
  )
  const begun = performance.now()
  const call = (headers: Record<string, string> = {}) =>
    answering(new Request('http://localhost/nothing', { headers }))
  for (let nth = 0; nth < 500; nth++) {
    await call()
    await call({ authorization: 'Bearer x' })
  }
  const seconds = Math.ceil((performance.now() - begun) / 1000) + 1
  expect(lines.filter(line => line.includes('status=200'))).toHaveLength(500)
  expect(lines.filter(line => line.includes('status=401')).length).toBeLessThanOrEqual(10 * seconds)
  expect(counted).toBe(1000)
})
