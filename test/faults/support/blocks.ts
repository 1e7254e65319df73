/**
 * Preloaded: SIGUSR2 says `blocked` and blocks this process's event loop, SIGSTOP without the signal, until there is a
 * file `go-on` in its data directory, for a minute at most.
 */
import { existsSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const goOn = join(process.argv[process.argv.indexOf('-d') + 1] ?? '', 'go-on')
const clock = new Int32Array(new SharedArrayBuffer(4))

process.on('SIGUSR2', () => {
  writeSync(2, 'blocked\n')
  for (let tries = 0; tries < 600 && !existsSync(goOn); tries++) Atomics.wait(clock, 0, 0, 100)
})
