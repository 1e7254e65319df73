/** Same as `loop.py`, by the library. Arguments: the address of the service, the consumer, the file. */
import { appendFileSync } from 'node:fs'
import process from 'node:process'
import { Svc } from '../../src/client/index.ts'

const [url = '', consumer = '', file = ''] = process.argv.slice(2)
const svc = await Svc.connect(url)
for await (const { from_user: user, id, redelivered: again = false } of svc.messages({ consumer }))
  appendFileSync(file, `${JSON.stringify({ id, user, again })}\n`)
