/** The page about upgrades: its commands are run, in their order, by somebody who has all of what it names. */
import { afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { folderOfFile, folderOfTest } from '../support/folder.ts'
import { freePort } from '../support/port.ts'
import { isPostgresThere, sharedPostgres } from '../support/postgres.ts'

const root = join(import.meta.dir, '../..')
const page = await readFile(join(root, 'scripts/upgrade/README.md'), 'utf8')
const canRun = process.platform === 'linux' && Bun.which('git') !== null && Bun.which('curl') !== null

/** Returns the commands of a section. */
const commandsOf = (title: string): string[] => {
  const section =
    title === '' ? page.split('\n## ')[0]! : page.split('\n## ').find(one => one.startsWith(`${title}\n`))!
  return [...section.matchAll(/^```bash\n([\s\S]*?)^```$/gm)].map(([, commands]) => commands!)
}

/** Two versions of the sources. */
const sources = folderOfFile()
const [before, after] = ['0.9.8', '0.9.9']
const sourceOf = (version: string) => join(sources, version)

async function makeSources(): Promise<void> {
  const own = await readFile(join(root, 'package.json'), 'utf8')
  for (const version of [before, after]) {
    const dir = sourceOf(version)
    await mkdir(dir, { recursive: true })
    for (const name of ['src', 'scripts', 'admin', 'locales', 'bun.lock', 'deno.json', 'dist'])
      await cp(join(root, name), join(dir, name), { recursive: true })
    await writeFile(join(dir, 'package.json'), own.replace(/"version": "[^"]+"/, `"version": "${version}"`))
    await Bun.$`ln -s ${join(root, 'node_modules')} ${join(dir, 'node_modules')}`
  }
}

let end = () => {}
afterEach(() => end())

/** A person with a clone, a binary and a service of the version before, and the next version at hand. */
async function person(more: Record<string, string> = {}) {
  const home = folderOfTest()
  const port = freePort()
  const state = join(home, 'state')
  const unit = join(home, '.config/systemd/user/svc.service')
  const script = async (path: string, text: string) => {
    await mkdir(join(home, path, '..'), { recursive: true })
    await writeFile(join(home, path), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  }
  await mkdir(state)
  await writeFile(join(state, 'unit'), unit)
  await script('bin/systemctl', `exec ${process.execPath} ${root}/test/service/systemctl.ts ${state} "$@"`)
  await script('bin/journalctl', 'true')
  for (const [path, version] of [
    ['.local/bin/svc', before],
    ['Downloads/svc-linux-x64', after],
  ] as const)
    await script(path, `exec ${sourceOf(version)}/scripts/svc "$@"`)
  const env = {
    PATH: `${home}/.local/bin:${home}/bin:${process.env.PATH}`,
    HOME: home,
    LANG: 'C.UTF-8',
    SVC_PORT: String(port),
    SVC_DRAIN: '1',
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'user.email',
    GIT_CONFIG_VALUE_0: 'a@b.example',
    ...more,
  }
  const run = async (commands: string): Promise<string> => {
    const here = commands.replaceAll('127.0.0.1:8000', `127.0.0.1:${port}`)
    const child = Bun.spawn(['bash', '-euc', `exec 2>&1\n${here}`], {
      cwd: home,
      env,
      stdin: 'ignore',
      stdout: 'pipe',
    })
    const output = await new Response(child.stdout).text()
    if ((await child.exited) !== 0) throw new Error(`${here}\n${output}`)
    return output
  }
  end = () => {
    const pid = Number(Bun.spawnSync(['cat', join(state, 'pid')]).stdout.toString())
    if (pid > 0) process.kill(pid, 'SIGKILL')
  }
  await run(`svc service install --user
    sed -i 's#^ExecStart=\\S* \\S* #ExecStart=${home}/.local/bin/svc #' ${unit}
    systemctl --user restart svc`)
  return { run, home }
}

describe.skipIf(!canRun)('every command of the page', () => {
  beforeAll(makeSources, 60_000)

  test('upgrades a clone, a binary and a service, and leads back', async () => {
    const { run } = await person({ SVC_SANDBOX: '1', SVC_SANDBOX_PORT: String(freePort()) })
    const versionIn = (output: string) => /0\.9\.\d/.exec(output)?.[0]
    await run(`git init -q upstream && cd upstream
      printf 'node_modules\\ndist\\n' > .gitignore
      cp -r ${sourceOf(before)}/. . && git add . && git commit -qm before
      git clone -q . ~/svc && ln -s ${root}/node_modules ~/svc/node_modules
      cp ${sourceOf(after)}/package.json . && git commit -qam after`)
    for (const commands of commandsOf('')) await run(commands)

    const [upgrade, back, ...rest] = commandsOf('A clone')
    expect(rest).toEqual([])
    expect(versionIn(await run('~/svc/scripts/svc --version'))).toBe(before)
    expect(versionIn(await run(upgrade!))).toBe(after)
    expect(await run(back!)).toContain('.svc-before')
    expect(versionIn(await run('~/svc/scripts/svc --version'))).toBe(before)

    expect(versionIn(await run('svc service status --user'))).toBe(before)
    const [replace] = commandsOf('A binary')
    expect(versionIn((await run(replace!)).split('\n').at(-2)!)).toBe(after)
    // It goes on with the old one, and says so.
    expect(await run('svc service status --user')).toMatch(/runs 0\.9\.8, this is 0\.9\.9/)
    const [restart] = commandsOf('A service')
    const status = await run(restart!)
    expect([versionIn(status), /healthy/.test(status), /0\.9\.8/.test(status)]).toEqual([after, true, false])
    await run(/mv \S+ \S+(?=`)/.exec(page)![0])
    expect(versionIn(await run('svc --version'))).toBe(before)
  }, 180_000)

  test.skipIf(!isPostgresThere())(
    'upgrades a node of a cluster',
    async () => {
      const postgres = await sharedPostgres()
      await postgres.createDatabase('upgraded')
      const folder = folderOfTest()
      await writeFile(join(folder, 'url'), postgres.url('upgraded'))
      await writeFile(join(folder, 'key'), 'K9wq2-hTzVbN71xPmRfAaYdL04sGeJcU')
      const { run } = await person({
        SVC_STORE_URL_FILE: join(folder, 'url'),
        SVC_SECRET_KEY_FILE: join(folder, 'key'),
        SVC_UPSTREAM_URL: 'http://127.0.0.1:9',
      })
      expect(await run('svc nodes')).toContain(before)
      await run('cp ~/Downloads/svc-linux-x64 ~/.local/bin/svc')
      const [restart] = commandsOf('A cluster')
      expect((await run(restart!)).match(/0\.9\.\d/g)).toEqual([after, after])
    },
    120_000,
  )
})
