/** Preloaded: SIGUSR2 blocks this process's event loop for 11 s, SIGSTOP without the signal. */
process.on('SIGUSR2', () => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 11_000)
})
