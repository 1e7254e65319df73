/** The programs of the page for a home server, with a camera and a backup program in place of real ones. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { quoteForShell } from '../../src/platform/format.ts'
import { agentReads, type Serving, serveHere, svc, svcRunning } from '../support/command.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'
import { logIn } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const page = await readFile(resolve(import.meta.dirname, '../../src/agent/home/README.md'), 'utf8')
/** The nth block of a language. */
const block = (language: string, nth = 0): string =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))][nth]![1]!

/** The smallest JPEG that is one by its first bytes. */
const picture = new Uint8Array([0xff, 0xd8, 0xff, 0xe0, ...Array.from({ length: 60 }, () => 1), 0xff, 0xd9])
const camera = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(picture) })
afterAll(() => camera.stop(true))

const home = folderOfFile()
const env = { PATH: `${join(home, 'bin')}:${process.env.PATH}`, CAMERA: camera.url.href }
const write = (path: string, text: string) => writeFile(join(home, path), text, { mode: 0o755 })

let service: Serving
beforeAll(async () => {
  await mkdir(join(home, 'bin'))
  service = await serveHere(join(home, 'data'), { home, env }, '--pace', 'off')
  await logIn(service)
})
afterAll(async () => {
  await service?.stop()
})

const sent = async () =>
  (await service.call('history', { direction: 'sent', limit: 50 })).body.messages.toReversed() as {
    text: string
    msg_type: string
  }[]

describe.each([
  ['bash', 'home.sh', block('sh')],
  ['python', 'home.py', block('python').replace('http://192.168.1.20/snapshot.jpg', camera.url.href)],
])('the script in %s', (_language, name, text) => {
  test('answers words, sends a picture, and says what it knows', async () => {
    await write(name, text)
    const words = [
      'agent',
      '--sandbox',
      '-d',
      service.dir,
      '--pace',
      'off',
      '--name',
      name.replace('.', '-'),
      '--gather',
      '0.1',
    ]
    const running = svcRunning([...words, '--', join(home, name)], { home, env })
    await until(
      'it is ready',
      30_000,
      () => /may talk with it\n/.test(running.stdout),
      () => running.stderr,
    )
    await agentReads(service.dir, name.replace('.', '-'))
    const before = (await sent()).length
    const answers = async (count: number) => {
      await until(
        'it answers',
        30_000,
        async () => (await sent()).length >= before + count,
        () => running.stderr,
      )
      return (await sent()).slice(before)
    }
    await service.phone('say', { text: 'Disk。' })
    expect((await answers(1))[0]!.text).toMatch(/free of/)
    await service.phone('say', { text: 'photo' })
    expect((await answers(2))[1]!.msg_type).toBe('IMAGE')
    await service.phone('say', { text: 'open the door' })
    expect((await answers(3))[2]!.text).toContain('photo')
    running.stop('SIGINT')
    expect((await running.exited).status).toBe(0)
  })
})

test('the backup reports its end and its failure, and prints nothing', async () => {
  const program = svcProgram.map(quoteForShell).join(' ')
  await write('bin/svc', `#!/bin/sh\nexec ${program} "$@"\n`)
  await write('backup.sh', block('sh', 1))
  const [user] = (await (await fetch(`${service.url}/users`)).json()) as { user_id: string }[]
  const own = {
    ...env,
    HOME: home,
    ME: user!.user_id,
    SVC_BASE_PATH: service.dir,
    SVC_SANDBOX: '1',
    SVC_PACE: 'off',
  }
  const run = () => ended(['bash', join(home, 'backup.sh')], { cwd: home, env: own })
  for (const [status, said] of [
    [1, 'BACKUP FAILED: disk full'],
    [0, 'Backup done: snapshot 1 saved'],
  ] as const) {
    await write(
      'bin/restic',
      `#!/bin/sh\necho ${status ? 'disk full' : 'snapshot 1 saved'}\nexit ${status}\n`,
    )
    const before = (await sent()).length
    expect(await run()).toEqual({ status: 0, stdout: '', stderr: '' })
    await until('it is sent', 30_000, async () => (await sent()).length > before)
    expect((await sent()).at(-1)!.text).toBe(said)
  }
})

test('what the page shows of the command line exists', async () => {
  for (const words of [
    ['users', '--help'],
    ['outbox', '--help'],
    ['service', 'install', '--help'],
    ['service', 'status', '--help'],
  ])
    expect((await svc(words, { home })).status).toBe(0)
})

test('the automation for Home Assistant sends what svc takes', async () => {
  const { rest_command, automation } = Bun.YAML.parse(block('yaml')) as {
    rest_command: Record<string, { url: string; payload: string; headers: { authorization: string } }>
    automation: { actions: { action: string; data: Record<string, string> }[] }[]
  }
  const [user] = (await (await fetch(`${service.url}/users`)).json()) as { user_id: string }[]
  await writeFile(join(service.dir, 'media/door.jpg'), picture)
  const [command] = /svc key add [^`]+/.exec(page)!
  const added = await svc([...command.split(' ').slice(1), '--json', '--sandbox', '-d', service.dir], {
    home,
  })
  const { key } = JSON.parse(added.stdout) as { key: string }
  for (const { action, data } of automation[0]!.actions.slice(1)) {
    const { headers, payload, url } = rest_command[action.split('.')[1]!]!
    const body = payload
      .replace('…@im.wechat', user!.user_id)
      .replace(/\{\{ (\w+) \| to_json \}\}/g, (_all, name) => JSON.stringify(data[name]))
    expect(url).toBe('http://127.0.0.1:8000/tools/default/send')
    const send = (authorization: string) =>
      fetch(`${service.url}/tools/default/send`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body,
      })
    expect((await send('')).status).toBe(401)
    expect(await (await send(headers.authorization.replace('KEY', key))).json()).toMatchObject({
      success: true,
    })
  }
})
