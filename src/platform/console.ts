/** The console of the process. */

/** From here on whatever prints by the console prints to stderr: stdout carries something else. */
export function keepStdoutClean(): void {
  const toStderr = (...values: unknown[]) => console.error(...values)
  for (const name of ['log', 'info', 'debug', 'table', 'dir'] as const) console[name] = toStderr
}
