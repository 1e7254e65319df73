/** Preloaded: SIGUSR2 says `blocked` and blocks this process's event loop for 11 s, SIGSTOP without the signal. */
import { writeSync } from 'node:fs'

process.on('SIGUSR2', () => {
  writeSync(2, 'blocked\n')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 11_000)
})
