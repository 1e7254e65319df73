/**
 * What a systemd that does not run here would be asked, as a program to stand in for systemctl on the PATH: it notes its
 * arguments and does to the service of the unit what systemd does: starts it, waits until it says that it is ready by
 * answering, stops it. Beside it lies `state/`: `calls`, the pid, and what a test wants it to refuse.
 */
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseUnitCommand } from '../../src/service/systemd.ts'

const [state = '', ...args] = process.argv.slice(2)
const at = (name: string) => join(state, name)
const kept = (name: string) => (existsSync(at(name)) ? readFileSync(at(name), 'utf8') : '')
appendFileSync(at('calls'), `${args.join(' ')}\n`)

const words = args.filter(word => !word.startsWith('-'))
const unit = kept('unit')
const alive = (pid: number) => {
  try {
    process.kill(pid, 0)
    return pid > 0
  } catch {
    return false
  }
}

async function stop(): Promise<void> {
  const pid = Number(kept('pid'))
  if (!pid) return
  if (alive(pid)) process.kill(pid, 'SIGTERM')
  for (let left = 2000; left > 0 && alive(pid); left--) await Bun.sleep(10)
  rmSync(at('pid'), { force: true })
}

/** Like `Type=notify`: back when it listens, or when it ended. */
async function start(): Promise<number> {
  const [program = '', ...rest] = parseUnitCommand(readFileSync(unit, 'utf8')) ?? []
  const log = openSync(at('journal'), 'a')
  const child = spawn(program, rest, { detached: true, stdio: ['ignore', log, log] })
  let ended = false
  child.on('exit', () => {
    ended = true
  })
  writeFileSync(at('pid'), String(child.pid))
  writeFileSync(at('journal'), '')
  for (let left = 2000; left > 0 && !ended; left--) {
    if (/^listening on /m.test(kept('journal'))) return 0
    await Bun.sleep(10)
  }
  rmSync(at('pid'), { force: true })
  console.error('Job for svc.service failed because the control process exited with error code.')
  return 1
}

switch (words[0]) {
  case 'is-system-running':
    console.log(kept('system') || 'running')
    if (kept('system')) process.exit(1)
    break
  case 'restart':
    await stop()
    process.exit(await start())
    break
  case 'disable':
    await stop()
    break
  case 'show': {
    const running = alive(Number(kept('pid')))
    console.log(`LoadState=${existsSync(unit) ? 'loaded' : 'not-found'}`)
    console.log(`FragmentPath=${kept('fragment') || (existsSync(unit) ? unit : '')}`)
    console.log(`UnitFileState=enabled\nActiveState=${running ? 'active' : 'inactive'}`)
    console.log(`SubState=${running ? 'running' : 'dead'}\nMainPID=${running ? kept('pid') : 0}\nNRestarts=0`)
    console.log('ActiveEnterTimestamp=Sun 2026-11-22 00:38:53 UTC\nResult=success\nExecMainStatus=0')
  }
}
// Like systemd's, it has nothing more to do with the service.
process.exit(0)
