/** `svc service install --socket-activation` with a systemd of its own: calls wait while svc restarts, and are answered. */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { ended } from '../support/ended.ts'
import { end, family } from '../support/family.ts'
import { folderOfTest } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { logIn, servedAt } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const systemd = '/lib/systemd/systemd'
const can =
  process.geteuid?.() === 0 &&
  existsSync(systemd) &&
  Bun.spawnSync(['unshare', '--mount', '--pid', '--fork', 'mount', '-t', 'tmpfs', 'tmpfs', '/run'])
    .exitCode === 0
const named = (name: string) =>
  `${name}${can ? '' : ' (skipped: needs systemd, and root that may mount and unshare)'}`

/** A systemd of a user, in a /run and among processes of its own. */
async function startSystemd(home: string) {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_RUNTIME_DIR: '/run/user/0',
  }
  const script = `mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && mkdir -m 700 -p /run/user/0 && ${systemd} --user & wait`
  const outer = Bun.spawn(
    ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c', script],
    { cwd: home, env, stdio: ['ignore', 'ignore', 'ignore'] },
  )
  const enter = (...command: string[]) => {
    const inner = family(outer.pid).find(pid => pid !== outer.pid) ?? 0
    return ended(['nsenter', '-m', '-p', '-t', String(inner), ...command], { cwd: home, env })
  }
  const systemctl = (...args: string[]) => enter('systemctl', '--user', '--no-pager', ...args)
  await until('systemd runs', 30_000, async () =>
    /running|degraded/.test((await systemctl('is-system-running')).stdout),
  )
  return {
    systemctl,
    service: (...args: string[]) => enter(...svcProgram, 'service', ...args),
    async [Symbol.asyncDispose]() {
      for (const pid of family(outer.pid)) end(pid, 'SIGKILL')
      await outer.exited
    },
  }
}

/** Sends on a connection of its own, from an address of its own. @returns 200, or why not */
const send = (port: string, to: string, key: string): Promise<string> =>
  new Promise(resolve => {
    const call = request({
      ...{ host: '127.0.0.1', port, path: '/tools/default/send', method: 'POST', agent: false },
      localAddress: '127.0.0.9',
      headers: { 'content-type': 'application/json' },
    })
    call.on('response', async answer => {
      const text = (await answer.toArray()).join('')
      resolve(answer.statusCode === 200 ? '200' : text)
    })
    call.on('error', error => resolve(String(error)))
    call.end(JSON.stringify({ to, text: key, idempotency_key: key, when_closed: 'queue' }))
  })

/** Sends all the time, one after the other, until it is asked to end. */
function keepSending(port: string, to: string, name: string) {
  const answers: string[] = []
  let isOver = false
  const ending = (async () => {
    for (let nth = 0; !isOver; nth++) answers.push(await send(port, to, `${name} ${nth}`))
    return answers
  })()
  return {
    answers,
    end() {
      isOver = true
      return ending
    },
  }
}

test.skipIf(!can)(
  named(
    'sends wait while svc restarts, after its death too; a change of the ports and the removal leave no socket',
  ),
  async () => {
    const home = folderOfTest()
    const [port, relayPort, phonePort, otherPort] = Array.from({ length: 4 }, () => String(freePort()))
    const units = join(home, '.config', 'systemd', 'user')
    await using systemd = await startSystemd(home)
    const install = async (...more: string[]) => {
      const given = ['-d', join(home, 'data'), '--sandbox', '--sandbox-port', phonePort!, '--pace', 'off']
      const { status, stdout, stderr } = await systemd.service(
        'install',
        '--user',
        ...given,
        '--drain',
        '1',
        ...more,
      )
      expect([status, stderr]).toEqual([0, ''])
      return stdout
    }
    const holds = async () =>
      (await systemd.systemctl('show', 'svc.socket', '--property=ActiveState,Listen')).stdout
        .trim()
        .split('\n')
        .sort()
    await install('--socket-activation', '-p', port!, '--relay-port', relayPort!)
    expect(await holds()).toEqual([
      'ActiveState=active',
      `Listen=127.0.0.1:${port} (Stream)`,
      `Listen=127.0.0.1:${relayPort} (Stream)`,
    ])
    const text = `listening on http://127.0.0.1:${port}\nphone on http://127.0.0.1:${phonePort}/phone`
    const service = servedAt(text)!
    await logIn(service, 'work')
    await service.phone('say', { text: 'hello' })
    const { body: received } = await service.call('recv', { timeout: 20 })
    const user = received[0].from_user

    const senders = ['a', 'b', 'c'].map(name => keepSending(port!, user, name))
    const isBack = async (before: number) => {
      const sentNow = () => Math.min(...senders.map(({ answers }) => answers.length))
      await until('all send again', 60_000, () => sentNow() > before)
    }
    const sent = () => Math.max(...senders.map(({ answers }) => answers.length))
    await isBack(0)
    for (let nth = 0; nth < 3; nth++) {
      expect((await systemd.systemctl('restart', 'svc')).status).toBe(0)
      await isBack(sent())
    }
    for (const sender of senders) expect(new Set(await sender.end())).toEqual(new Set(['200']))

    // A dead one is replaced after two seconds.
    const { stdout: pid } = await systemd.systemctl('show', 'svc', '--property=MainPID', '--value')
    expect((await systemd.systemctl('kill', '--signal=KILL', 'svc')).status).toBe(0)
    expect(await send(port!, user, 'after its death')).toBe('200')
    expect((await systemd.systemctl('show', 'svc', '--property=MainPID', '--value')).stdout).not.toBe(pid)

    // The address of the caller is its own.
    const read = await fetch(`${service.url}/audit?limit=1&operation=send`)
    expect(JSON.stringify(await read.json())).toContain('127.0.0.9')

    await install('--socket-activation', '-p', otherPort!)
    expect(await holds()).toEqual(['ActiveState=active', `Listen=127.0.0.1:${otherPort} (Stream)`])
    expect([await send(port!, user, 'old'), await send(otherPort!, user, 'new')]).toEqual([
      expect.stringContaining('ECONNREFUSED'),
      '200',
    ])
    await install('-p', otherPort!)
    expect(await send(otherPort!, user, 'without')).toBe('200')
    expect(existsSync(join(units, 'svc.socket'))).toBe(false)
    await install('--socket-activation', '-p', otherPort!)
    expect(await send(otherPort!, user, 'again')).toBe('200')
    expect((await systemd.service('uninstall', '--user')).status).toBe(0)
    expect(await send(otherPort!, user, 'removed')).toContain('ECONNREFUSED')
    expect(['svc.socket', 'svc.service'].filter(name => existsSync(join(units, name)))).toEqual([])
  },
  180_000,
)
