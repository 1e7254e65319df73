import { expect, test } from 'bun:test'
import { fullHouse, othersServed, servedText } from './served.ts'

test('while each route, tool and method is called at its largest, and others do what takes long, a caller beside is served', async () => {
  // Other tests run beside this one, so it allows ten times the 250 ms that `scripts/fuzz --served 5` allows on a quiet machine.
  const report = await othersServed({ crowd: fullHouse, times: 1, pauseMs: 2500, memoryMb: 1024 })
  console.log(servedText(report))
  expect(report.findings).toEqual([])
  expect(report.cases).toBeGreaterThan(100)
}, 1_200_000)
