/** A REST door that is gone the moment it counts an answer as written; `now` or `later`: when the message comes. */
import { startRest } from '../../support/rest.ts'

const rest = await startRest()
const { settled } = rest.gateway
settled.push = () => {
  process.kill(process.pid, 'SIGKILL')
  return 0
}
const text = 'x'.repeat(Number(process.argv[3]))
if (process.argv[2] === 'now') rest.gateway.say(text)
else void rest.gateway.nextCall.then(() => setTimeout(() => rest.gateway.say(text), 50))
console.log(`listening on ${rest.url}`)
