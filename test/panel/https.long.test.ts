/** A browser and curl sign in to the panel over https, also after the certificate was replaced. */
import { expect, test } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { hasBrowser, launchBrowser } from '../support/browser.ts'
import { hasOpenssl, makePair, type Pair } from '../support/certificate.ts'
import { folderOfFile } from '../support/folder.ts'
import { panelLinkOf, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const folder = folderOfFile()
const files = { cert: join(folder, 'tls.crt'), key: join(folder, 'tls.key') }
const use = (pair: Pair) => {
  copyFileSync(pair.cert, files.cert)
  copyFileSync(pair.key, files.key)
}
const token = 'correct-horse-battery-staple'

test.skipIf(!hasBrowser || !hasOpenssl)(
  'a browser signs in, and its page stays when the certificate is replaced',
  async () => {
    use(makePair(folder, 'first'))
    await using service = await startService({
      args: ['--tls-cert', files.cert, '--tls-key', files.key, '--admin-port', '0', '--host', '127.0.0.1'],
      env: { SVC_TOKEN: token },
    })
    const panel = /admin on (\S+)/.exec(service.stdout())![1]!
    const link = `${panel}${await panelLinkOf(service.dir)}`
    const browser = await launchBrowser('--ignore-certificate-errors')
    try {
      const context = await browser.newContext()
      const page = await context.newPage()
      await page.goto(link)
      await page.getByRole('navigation').waitFor()
      const [cookie] = await context.cookies()
      expect([cookie?.name, cookie?.secure, cookie?.httpOnly, cookie?.path]).toEqual([
        `__Host-svc_panel_${new URL(panel).port}`,
        true,
        true,
        '/',
      ])
      use(makePair(folder, 'second'))
      await until(
        'it is replaced',
        20_000,
        () => service.log().includes('the certificate was replaced'),
        service.log,
      )
      await page.reload()
      await page.getByRole('navigation').waitFor()
      await page.goto(`${panel}/sessions`)
      await page.getByRole('navigation').waitFor()
    } finally {
      await browser.close()
    }
    if (!Bun.which('curl')) return
    const curl = (...args: string[]) => Bun.spawnSync(['curl', '-sk', ...args]).stdout.toString()
    expect(curl('--http1.1', `${service.url}/healthz`)).toContain('"status"')
    const signIn = curl(
      '-i',
      '-H',
      'content-type: application/json',
      '-d',
      JSON.stringify({ token }),
      `${panel}/api/sign-in`,
    )
    expect(signIn).toMatch(/set-cookie: __Host-svc_panel_\d+=/i)
  },
  90_000,
)
