/** Whether strace may trace here; said once on stderr when not. */
export const canTrace: boolean = (() => {
  const ok =
    process.platform === 'linux' &&
    Bun.which('strace') !== null &&
    Bun.spawnSync(['strace', '-o', '/dev/null', 'true'], { stderr: 'ignore' }).exitCode === 0
  if (!ok) console.error('tests that kill at each system call are skipped: no strace that may trace')
  return ok
})()
