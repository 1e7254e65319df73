/** A loop of a client while its service is killed and started again. */
import { Svc } from '../../src/index.ts'
import { silentLog } from '../../src/platform/log.ts'
import { folderOfTest } from '../support/folder.ts'
import { openFiles } from '../support/gateway.ts'
import { freePort } from '../support/port.ts'
import { withSandbox } from '../support/sandbox.ts'
import { type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** @returns the texts that a user wrote and the loop did not get, and those that it got more than once */
export async function runThroughKills(kills: number): Promise<{ lost: string[]; twice: string[] }> {
  await using sandbox = await withSandbox()
  const dir = folderOfTest()
  const { state, close } = await openFiles(dir)
  await state.sessions.save('default', { ...sandbox.bot(), cursor: '', created_at: Date.now() })
  await close()
  const port = String(freePort())
  const args = ['--port', port, '--upstream-url', sandbox.url, '--cdn-url', sandbox.cdnUrl]
  const start = (): Promise<Service> => startService({ dir, sandbox: false, args, readyWithinMs: 60_000 })
  let service = await start()
  const svc = await Svc.connect(service.url, { log: silentLog })
  const got: string[] = []
  const loop = (async () => {
    for await (const { text } of svc.messages({ consumer: 'bot' })) {
      got.push(text)
      await Bun.sleep(Math.random() * 20)
    }
  })()
  try {
    // The consumer is new: it gets what comes after its first call.
    await until('the loop runs', 60_000, async () => got.length > 0 || void (await sandbox.say('warm')))
    const written: string[] = []
    for (let nth = 0; nth < kills; nth++) {
      const before = got.length
      for (let one = 0; one < 10; one++) {
        written.push(`${nth}.${one}`)
        await sandbox.say(`${nth}.${one}`)
      }
      // In the middle of them, so that it dies at any step.
      await until('some came', 60_000, () => got.length > before + Math.random() * 8)
      await service.kill('SIGKILL')
      service = await start()
    }
    const find = () => written.filter(text => !got.includes(text))
    await until('the rest', 120_000, () => find().length === 0).catch(() => undefined)
    return { lost: find(), twice: written.filter(text => got.indexOf(text) !== got.lastIndexOf(text)) }
  } finally {
    await svc.close()
    await loop
    await service[Symbol.asyncDispose]()
  }
}
