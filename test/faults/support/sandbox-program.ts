/** `sandbox-program.ts FOLDER FAULTS`: a simulated WeChat as a process of its own, which fails as the JSON of FAULTS says. */
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { startSandbox } from '../../../src/sandbox/sandbox.ts'
import { Faults } from '../../support/faults.ts'
import { HeldPolls } from '../../support/held-polls.ts'

const [dir = '', faults = '[]'] = process.argv.slice(2)
const set = new Faults(systemClock)
for (const { endpoint, kind, ...more } of JSON.parse(faults)) set.add(endpoint, kind, more)
const held = new HeldPolls(systemClock)
const { url, world } = await startSandbox({
  ...{ dir, host: '127.0.0.1', port: 0, clock: systemClock },
  ...{ log: silentLog, intercept: held.around(set.between) },
})
// For GET /phone/stats.
Object.assign(world.core.stats, { polls_at_once: held.atOnce })
console.log(`phone on ${url}/phone`)
