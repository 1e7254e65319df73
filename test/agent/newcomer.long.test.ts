/** The way of a newcomer: the built program, the lines of README, and a browser. */
import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import process from 'node:process'
import { findTarget } from '../../scripts/build/targets.ts'
import { buildBinary, canBuild } from '../support/binary.ts'
import { hasBrowser, sharedBrowser, watch } from '../support/browser.ts'
import { folderOfTest } from '../support/folder.ts'
import { overhear } from '../support/overheard.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

const target = findTarget('bun-linux-x64')
const there =
  hasBrowser && process.platform === 'linux' && process.arch === 'x64' && (await canBuild([target]))

test.skipIf(!there)(
  'with README alone a scripted agent answers on the phone page within three minutes',
  async () => {
    using binary = await buildBinary(target)
    const home = folderOfTest()
    const readme = await readFile(resolve(import.meta.dirname, '../../README.md'), 'utf8')
    const [, words = ''] = /`\.\/scripts\/svc (agent --sandbox [^`]+)`/.exec(readme) ?? []
    using watched = stopwatch()
    // The usual port of the phone may be taken on this machine.
    const child = Bun.spawn([binary.path, ...words.split(' ')], {
      cwd: home,
      env: { PATH: process.env.PATH ?? '', HOME: home },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    try {
      const said = overhear(child)
      const output = () => said.stdout + said.stderr
      const phone = await until(
        'the phone has an address',
        30_000,
        () => /http:\S+\/phone/.exec(said.stdout)?.[0],
        output,
      )
      const { browser } = await sharedBrowser()
      const page = await (await browser.newContext({ locale: 'en' })).newPage()
      const complaints: string[] = []
      watch(page, new URL(phone).origin, complaints)
      await page.goto(phone)
      await page.getByRole('button', { name: 'Scan and agree' }).click()
      await until('it is connected', 30_000, () => said.stdout.includes('may talk with it'), output)
      const write = async (text: string) => {
        const field = page.getByLabel('Message to the bot')
        await field.fill(text)
        await field.press('Enter')
      }
      await write('Hello')
      await page.locator('.bubble', { hasText: 'You said: Hello' }).waitFor()
      await write('help')
      await page.locator('.bubble', { hasText: 'These words do more' }).waitFor()
      await write('picture')
      await page.locator('.bot img').waitFor()
      expect(complaints).toEqual([])
      expect(watched.ms).toBeLessThan(180_000)
      child.kill('SIGINT')
      expect(await said.exited).toBe(0)
    } finally {
      child.kill('SIGKILL')
      await child.exited
    }
  },
  240_000,
)
