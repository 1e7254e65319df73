/** A service on a site's directory in the test's process: for what needs no process to die and no other user. */
import { createLog } from '../../../src/platform/log.ts'
import { type TestGateway, type TestGatewayOptions, withGateway } from '../../support/gateway.ts'
import { restOf } from '../../support/rest.ts'
import type { Program } from './program.ts'
import type { Site } from './upstream.ts'

export interface Hosted extends Pick<Program, 'url' | 'log' | 'call' | 'get'>, AsyncDisposable {
  /** With the clock, and what lets time pass. */
  readonly gateway: TestGateway
  /** As after SIGTERM. */
  stop(): Promise<void>
}

/** @throws SvcError when it cannot be opened */
export async function hosted(
  site: Site,
  { clock, config }: Pick<TestGatewayOptions, 'clock' | 'config'> = {},
): Promise<Hosted> {
  const gateway = await withGateway({
    sandbox: site.sandbox,
    dir: site.dir,
    sessions: [],
    ...(clock && { clock }),
    ...(config && { config }),
  })
  const { lines } = gateway
  const rest = await restOf(gateway.gateway, { log: createLog('DEBUG', line => void lines.push(line)) })
  let isStopped = false
  const stop = async () => {
    if (isStopped) return
    isStopped = true
    await rest[Symbol.asyncDispose]()
    await gateway[Symbol.asyncDispose]()
  }
  return {
    gateway,
    url: rest.url,
    log: () => lines.join(''),
    call: (tool, input, signal) => rest.call(tool, input ?? {}, signal ? { signal } : {}) as never,
    async get(path) {
      const response = await fetch(`${rest.url}${path}`)
      return { status: response.status, body: await response.json() }
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
