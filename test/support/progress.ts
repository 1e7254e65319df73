/** Loaded before the tests: notes each file that is done in the file that SVC_TEST_DONE names. */
import { afterAll } from 'bun:test'
import { appendFileSync } from 'node:fs'

const { SVC_TEST_DONE: done } = process.env
afterAll(() => {
  if (done !== undefined) appendFileSync(done, `${Bun.main}\n`)
})
