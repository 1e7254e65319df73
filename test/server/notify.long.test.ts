/**
 * The real programs of Debian send to a topic: Apprise, and Alertmanager with the shipped alerts of svc. Without them
 * (`apt install apprise prometheus-alertmanager`) their tests are skipped.
 */
import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { folderOfTest } from '../support/folder.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { freePort } from '../support/port.ts'
import { restOf } from '../support/rest.ts'
import { until } from '../support/until.ts'

/** A gateway whose user has written, with the topic home, its key, and the door. */
async function openTopic() {
  const t = await withGateway()
  await t.sandbox.say('hi')
  await t.receive(1)
  await t.gateway.topics.add(owner, { name: 'home', to: [t.bots.get('default')!.user_id], answers: 8 })
  const { key } = await t.gateway.keys.add({ name: 'sender', can: ['notify'], topics: ['home'] }, owner)
  const rest = await restOf(t.gateway)
  return {
    t,
    key,
    port: rest.server.port,
    [Symbol.asyncDispose]: async () => {
      await rest[Symbol.asyncDispose]()
      await t[Symbol.asyncDispose]()
    },
  }
}

/** Waits until the phone shows all of these texts, and this number of pictures. */
async function shows(t: TestGateway, texts: string[], pictures = 0): Promise<void> {
  await t.soon(`on the phone: ${texts}`, async () => {
    const messages = await t.sandbox.messages({ from: 'bot' })
    const shown = JSON.stringify(messages)
    const images = messages.flatMap(({ items }) => items.filter(({ kind }) => kind === 'image'))
    return texts.every(text => shown.includes(text)) && images.length === pictures
  })
}

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

test.skipIf(!Bun.which('apprise'))(
  'Apprise sends by json:// and ntfy://, with files',
  async () => {
    await using topic = await openTopic()
    const { key, port, t } = topic
    const picture = join(folderOfTest(), 'door.png')
    writeFileSync(picture, Buffer.from(png, 'base64'))
    const apprise = (url: string, body: string, ...more: string[]) =>
      Bun.spawn(['apprise', '-t', 'Größe 中文', '-b', body, ...more, url], {
        stdout: 'ignore',
        stderr: 'ignore',
      }).exited
    const json = `json://svc:${key}@127.0.0.1:${port}/notify/home`
    const ntfy = `ntfy://svc:${key}@127.0.0.1:${port}/home`
    expect(await apprise(json, 'by json', '-n', 'failure')).toBe(0)
    expect(await apprise(`${ntfy}?priority=high`, 'by ntfy')).toBe(0)
    await shows(t, ['by json', 'by ntfy', 'Größe 中文'])
    expect(await apprise(json, 'json with a file', '-n', 'failure', '-a', picture)).toBe(0)
    expect(await apprise(`${ntfy}?priority=high`, 'ntfy with a file', '-a', picture)).toBe(0)
    await shows(t, ['json with a file', 'ntfy with a file'], 2)
    expect(await apprise(`json://svc:wrong@127.0.0.1:${port}/notify/home`, 'not sent')).toBe(1)
    expect(await apprise(`ntfy://svc:${key}@127.0.0.1:${port}/garden`, 'not sent')).toBe(1)
  },
  180_000,
)

const rules = readFileSync(
  join(import.meta.dir, '../../scripts/deploy/helm/svc/prometheus-rules.yaml'),
  'utf8',
)
/** The shipped alerts, as Prometheus sends them. */
const shipped = [...rules.matchAll(/- alert: (\w+)[\s\S]*?severity: (\w+)[\s\S]*?summary: (.*)/g)].map(
  ([, alertname = '', severity = '', summary = '']) => ({
    labels: { alertname, severity, job: 'svc', instance: 'a:8000' },
    annotations: { summary: summary.replaceAll('{{ $labels.instance }}', 'a:8000') },
  }),
)

const program = 'prometheus-alertmanager'

test.skipIf(!Bun.which(program))(
  'Alertmanager sends the shipped alerts, firing and resolved',
  async () => {
    await using topic = await openTopic()
    const { key, port, t } = topic
    const cwd = folderOfTest()
    const url = `http://127.0.0.1:${port}/notify/home`
    writeFileSync(
      join(cwd, 'alertmanager.yml'),
      JSON.stringify({
        route: { receiver: 'svc', group_by: ['job'], group_wait: '1s', group_interval: '1s' },
        receivers: [
          {
            name: 'svc',
            webhook_configs: [{ url, http_config: { authorization: { type: 'Bearer', credentials: key } } }],
          },
        ],
      }),
    )
    const listen = `127.0.0.1:${freePort()}`
    const args = ['--config.file=alertmanager.yml', '--storage.path=data', `--web.listen-address=${listen}`]
    const running = Bun.spawn([program, ...args, '--cluster.listen-address='], {
      cwd,
      stdout: 'ignore',
      stderr: 'ignore',
    })
    try {
      const post = (alerts: object[]) =>
        fetch(`http://${listen}/api/v2/alerts`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(alerts),
        })
      const isReady = async () => (await fetch(`http://${listen}/-/ready`).catch(() => undefined))?.ok
      await until('Alertmanager runs', 60_000, isReady)
      expect(shipped.length).toBeGreaterThan(10)
      expect((await post(shipped)).status).toBe(200)
      const critical = shipped.filter(({ labels }) => labels.severity === 'critical')
      await shows(t, [...critical.map(({ labels }) => labels.alertname), critical[0]!.annotations.summary])
      const before = (await t.sandbox.messages({ from: 'bot' })).length
      const endsAt = new Date().toISOString()
      expect((await post(shipped.map(alert => ({ ...alert, endsAt })))).status).toBe(200)
      await t.soon('resolved on the phone', async () => {
        const since = (await t.sandbox.messages({ from: 'bot' })).slice(before)
        return JSON.stringify(since).includes(critical[0]!.labels.alertname)
      })
      // All together took few of the ten answers.
      expect((await t.sandbox.messages({ from: 'bot' })).length).toBeLessThanOrEqual(6)
    } finally {
      running.kill()
      await running.exited
    }
  },
  180_000,
)
