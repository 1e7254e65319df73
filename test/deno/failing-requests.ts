/** Asks each address that it is given, and prints how that failed, a line each. */
import process from 'node:process'
import { apiFetch } from '../../src/platform/fetch.ts'
import { errorCodeOf } from '../../src/platform/files.ts'

for (const url of process.argv.slice(2)) {
  const failure = await apiFetch(url, { method: 'POST', body: '{}' }).then(
    response => `answered ${response.status}`,
    error => errorCodeOf(error) ?? String(error),
  )
  process.stdout.write(`${failure}\n`)
}
