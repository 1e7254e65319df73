/** What a build takes from elsewhere: actions are named by commits, and `scripts/pin` names everything by its digest. */
import { expect, test } from 'bun:test'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { ended } from '../support/ended.ts'
import { folderOfTest } from '../support/folder.ts'

const root = join(import.meta.dir, '../..')
const workflows = readdirSync(join(root, '.github/workflows')).map(name => `.github/workflows/${name}`)
const usesIn = (text: string) => text.match(/^.*\buses: .*$/gm) ?? []

test('each action of a workflow is a commit, with its tag beside it', () => {
  const uses = workflows.flatMap(path => usesIn(readFileSync(join(root, path), 'utf8')))
  expect(uses.length).toBeGreaterThan(4)
  expect(uses.filter(line => !/ uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual([])
})

test('scripts/pin writes digests of images and commits of tags, the newest when it runs again, and never an empty one', async () => {
  const folder = folderOfTest()
  const files = ['Dockerfile', 'scripts/deploy/compose.cluster.yaml', ...workflows]
  for (const path of [...files, 'scripts/pin']) {
    mkdirSync(join(folder, dirname(path)), { recursive: true })
    cpSync(join(root, path), join(folder, path))
  }
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  /** Says what a registry and GitHub would. */
  const pin = async (digit: string) => {
    const say = (text: string) => `#!/bin/sh\nprintf '%s\\n' ${text}\n`
    const [digest, commit, tag] = [digit.repeat(64), digit.repeat(40), 'f'.repeat(40)]
    writeFileSync(join(bin, 'docker'), say(digit && `sha256:${digest}`), { mode: 0o755 })
    // A tag with a message: it, and the commit behind it.
    const lines = digit && `"${tag} refs/tags/v1" "${commit} refs/tags/v1^{}"`
    writeFileSync(join(bin, 'git'), say(lines), { mode: 0o755 })
    const env = { PATH: `${bin}:${process.env.PATH}` }
    return ended([join(folder, 'scripts/pin')], { cwd: folder, env })
  }
  const read = () => files.map(path => readFileSync(join(folder, path), 'utf8')).join('')
  for (const digit of ['a', 'b']) {
    expect(await pin(digit)).toMatchObject({ status: 0, stderr: '' })
    const text = read()
    const bases = [...text.matchAll(/^FROM (?:--platform=\S+ )?(\S+:\S+)|^ +image: (\S+:\S+)$/gm)]
    expect(bases.length).toBe(4)
    for (const [, from, image] of bases) expect(from ?? image).toEndWith(`@sha256:${digit.repeat(64)}`)
    for (const line of usesIn(text)) expect(line).toContain(`@${digit.repeat(40)} # v`)
  }
  const pinned = read()
  expect(await pin('')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/^error: no digest of node:/),
  })
  expect(read()).toBe(pinned)
})
