/** Programs of the relay as processes of their own, on one account of svc processes: what the long tests share. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Json, Service } from '../support/service.ts'
import { until } from '../support/until.ts'

export const master = 'a-token-that-nobody-guesses-4711-relay'
const kinds = { oc1: 'tencent', oc2: 'tencent', wl: 'weilink' } as const

/** svc as the programs see it. */
export interface World {
  readonly wechat: string
  /** The address of the relay. */
  readonly relay: string
  /** The processes of svc now. */
  readonly services: Service[]
}

interface KilledProgram {
  readonly name: string
  /** How often `restart` killed it. */
  readonly killed: number
  /** What it wrote down with this word in front, each line in its fields. */
  linesOf(word: 'got' | 'sent'): string[][]
  restart(): Promise<void>
}

export interface Programs extends AsyncDisposable {
  readonly all: readonly KilledProgram[]
  /** The person who scanned. */
  readonly user: string
}

export async function post(url: string, body: unknown): Promise<Json> {
  const response = await fetch(url, {
    method: 'POST',
    body: body instanceof Uint8Array ? new Blob([body as Uint8Array<ArrayBuffer>]) : JSON.stringify(body),
    headers: { authorization: `Bearer ${master}`, 'content-type': 'application/json' },
  })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response.json()
}

/** Logs the session `work` in, with a WeChat that sets no limits. */
export async function logInWork(wechat: string, service: string): Promise<void> {
  const login = (body: object) => post(`${service}/tools/default/login`, { session_name: 'work', ...body })
  await post(`${wechat}/phone/switches`, { burst: 'off', quota: 0 })
  const { qr_url } = await login({})
  await post(`${wechat}/phone/scan`, { confirm: true, qrcode: qr_url })
  await until(
    'the login is confirmed',
    30_000,
    async () => (await login({ timeout: 5 })).status === 'confirmed',
  )
}

/** Logs `work` in, adds a program of each kind, and starts them. They keep their files in `dir`. */
export async function startPrograms({ relay, services, wechat }: World, dir: string): Promise<Programs> {
  await logInWork(wechat, services[0]!.url)
  let user = ''
  const ends: (() => Promise<unknown>)[] = []
  const all: KilledProgram[] = []
  for (const [name, kind] of Object.entries(kinds)) {
    const { token, user_id } = await post(`${services[0]!.url}/relays`, { name, session: 'work' })
    user = user_id
    const words = [join(import.meta.dir, 'program.ts'), kind, relay, token, user_id, name, dir]
    const env = { PATH: process.env.PATH ?? '', HOME: dir, OPENCLAW_STATE_DIR: join(dir, name) }
    const run = () => Bun.spawn([process.execPath, ...words], { env, stdout: 'ignore', stderr: 'inherit' })
    const file = join(dir, `${name}.log`)
    let child = run()
    let killed = 0
    const end = () => {
      child.kill('SIGKILL')
      return child.exited
    }
    ends.push(end)
    all.push({
      name,
      get killed() {
        return killed
      },
      linesOf: word =>
        (existsSync(file) ? readFileSync(file, 'utf8') : '')
          .split('\n')
          .map(line => line.split('\t'))
          .filter(([first]) => first === word),
      async restart() {
        await end()
        killed++
        child = run()
      },
    })
  }
  return { all, user, [Symbol.asyncDispose]: async () => void (await Promise.all(ends.map(end => end()))) }
}

/** Starts svc on a folder and a port of its relay. */
export const serviceArgs = (wechat: string, port: number): string[] => [
  ...['--upstream-url', wechat, '--cdn-url', `${wechat}/c2c`, '--relay-port', String(port)],
  ...['--pace', 'off', '--token', master],
]
