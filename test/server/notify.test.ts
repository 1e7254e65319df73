/** What programs send to a topic, as their documents and sources have it, and what a person then reads. */
import { describe, expect, test } from 'bun:test'
import type { TopicForDoor } from '../../src/model/topic.ts'
import type { SentNotice } from '../../src/operations/notices.ts'
import { parseLossless } from '../../src/platform/lossless.ts'
import { readBodyForm } from '../../src/server/notify/form.ts'
import { readNotices } from '../../src/server/notify/read.ts'
import { codeOf } from '../support/failure.ts'

interface Sent {
  headers?: Record<string, string>
  query?: Record<string, string>
  body?: unknown
  topic?: Partial<TopicForDoor>
  /** Posted to `/`. */
  isRoot?: true
  dialect?: 'gotify'
}

/** Reads a body: bytes and texts as they are, anything else as JSON. */
async function read({
  headers = {},
  query = {},
  body = '',
  topic = {},
  isRoot,
  dialect,
}: Sent): Promise<readonly SentNotice[]> {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array
  const bytes = isRaw
    ? new Uint8Array(Buffer.from(body as string))
    : new Uint8Array(Buffer.from(JSON.stringify(body)))
  const typed = isRaw ? headers : { 'content-type': 'application/json', ...headers }
  // As the server gives them: each byte is a character.
  const sent = Object.entries(typed).map(([name, value]): [string, string] => [
    name,
    Buffer.from(value).toString('latin1'),
  ])
  const sources = { headers: new Headers(sent), query }
  const form = await readBodyForm(sources, bytes, parseLossless)
  return readNotices(sources, form, topic, isRoot ? 'ntfy' : dialect).notices
}

const readOne = async (sent: Sent) => {
  const notices = await read(sent)
  expect(notices).toHaveLength(1)
  return notices[0]!
}

const png = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 1, 2, 255])

describe('ntfy', () => {
  test('a text with headers, their short names, and their query forms', async () => {
    const expected = {
      title: 'Unauthorized access detected',
      text: 'Remote access to phils-laptop detected. Act right away.',
      priority: 'max',
      tags: ['warning', 'skull'],
    } as const
    const body = `${expected.text}\n`
    const curl = { 'content-type': 'application/x-www-form-urlencoded' }
    const headers = { ...curl, Title: expected.title, Priority: 'urgent', Tags: 'warning,skull' }
    expect(await readOne({ headers, body })).toEqual(expected)
    const short = { ...curl, t: expected.title, p: '5', ta: 'warning, skull' }
    expect(await readOne({ headers: short, body })).toEqual(expected)
    const long = { 'X-Title': expected.title, 'X-Priority': 'max', 'X-Tags': 'warning,skull' }
    expect(await readOne({ headers: long, body })).toEqual(expected)
    const query = { title: expected.title, prio: 'urgent', tags: 'warning,skull', message: expected.text }
    expect(await readOne({ query })).toEqual(expected)
  })

  test('titles in UTF-8 and in words of RFC 2047', async () => {
    for (const Title of [
      'Größe 中文 🎉',
      '=?utf-8?B?R3LDtsOfZSDkuK3mlocg8J+OiQ==?=',
      '=?UTF-8?Q?Gr=C3=B6=C3=9Fe_=E4=B8=AD=E6=96=87?= =?UTF-8?Q?_=F0=9F=8E=89?=',
    ])
      expect((await readOne({ headers: { Title }, body: 'x' })).title).toBe('Größe 中文 🎉')
    expect((await readOne({ headers: { Title: '=?nonsense?B?eA==?=' }, body: 'x' })).title).toBe(
      '=?nonsense?B?eA==?=',
    )
  })

  test('a priority that a proxy adds, and one that is none', async () => {
    const priorityOf = async (headers: Record<string, string>) =>
      (await readOne({ headers, body: 'x' })).priority
    expect(await priorityOf({ Priority: 'u=1, i', 'X-Priority': '4' })).toBe('high')
    for (const Priority of ['0', '', ' ']) expect(await priorityOf({ Priority })).toBe('default')
    for (const Priority of ['HIGH', ' high ', 'High']) expect(await priorityOf({ Priority })).toBe('high')
    for (const Priority of ['hgih', '紧急', 'very-urgent', 'not high', '6', '9', '-1', '1.5'])
      expect(await codeOf(priorityOf({ Priority }))).toBe('invalid_arguments')
    expect(await codeOf(read({ query: { p: 'hgih' }, body: 'x' }))).toBe('invalid_arguments')
    expect(await codeOf(read({ body: { topic: 'a', message: 'x', priority: 'hgih' } }))).toBe(
      'invalid_arguments',
    )
    expect(await codeOf(read({ body: { topic: 'a', message: 'x', priority: 9 } }))).toBe('invalid_arguments')
    const topic = { priorities: { 紧急: 'max' } } as const
    expect((await readOne({ headers: { Priority: '紧急' }, body: 'x', topic })).priority).toBe('max')
  })

  test('numbers of other programs count further, and those of Gotify on a scale of its own', async () => {
    const at = async (priority: unknown, dialect?: 'gotify') =>
      (await readOne({ body: { message: 'x', priority }, ...(dialect && { dialect }) })).priority
    expect([await at(9), await at('Very high!')]).toEqual(['max', 'high'])
    const found = await Promise.all([-2, 0, 1, 3, 4, '7', 8, 10, 99].map(one => at(one, 'gotify')))
    expect(found).toEqual(['min', 'min', 'low', 'low', 'default', 'default', 'high', 'high', 'high'])
    expect((await readOne({ body: { message: 'x' }, dialect: 'gotify' })).priority).toBe('default')
    const query = { message: 'x', priority: '2' }
    expect((await readOne({ query, dialect: 'gotify' })).priority).toBe('low')
  })

  test('a file as body, with a name or without, and an address', async () => {
    expect(await readOne({ headers: { Filename: 'flower.jpg' }, body: png })).toMatchObject({
      text: '',
      file: { name: 'flower.jpg', bytes: png },
    })
    // Apprise sends the fields of a file in the query.
    const query = { filename: 'notes.txt', title: 'Backup', message: 'done' }
    const noted = await readOne({ query, body: '{"is": "a file"}' })
    expect(noted).toMatchObject({ title: 'Backup', text: 'done', file: { name: 'notes.txt' } })
    expect((await readOne({ body: png })).file?.bytes).toEqual(png)
    expect((await readOne({ body: 'long '.repeat(5000) })).file?.bytes).toHaveLength(25_000)
    const headers = { Attach: 'https://f-droid.org/F-Droid.apk', Click: 'https://f-droid.org' }
    expect(await readOne({ headers, body: 'An app' })).toMatchObject({
      text: 'An app',
      click: 'https://f-droid.org',
      file: { url: headers.Attach },
    })
  })

  test('its JSON, posted to the root, whatever type the client claims', async () => {
    const body = {
      topic: 'mytopic',
      message: 'Disk space is low at 5.1 GB',
      title: 'Low disk space alert',
      tags: ['warning', 'cd'],
      priority: 4,
      attach: 'https://filesrv.lan/space.jpg',
      filename: 'diskspace.jpg',
      click: 'https://homecamera.lan/xasds1h2xsSsa/',
      actions: [{ action: 'view', label: 'Admin panel', url: 'https://filesrv.lan/admin' }],
    }
    const expected = {
      title: body.title,
      text: body.message,
      priority: 'high',
      tags: body.tags,
      click: body.click,
      file: { name: 'diskspace.jpg', url: body.attach },
    } as const
    expect(await readOne({ body, isRoot: true })).toEqual(expected)
    const asText = { headers: { 'content-type': 'text/plain;charset=UTF-8' }, body: JSON.stringify(body) }
    expect(await readOne({ ...asText, isRoot: true })).toEqual(expected)
    expect(await readOne({ body: { topic: 'mytopic' }, isRoot: true })).toEqual({
      text: 'triggered',
      priority: 'default',
    })
  })

  test('a sequence is one notice, and a time is refused', async () => {
    for (const sent of [
      { headers: { 'X-Sequence-ID': 'download-1' }, body: '50 %' },
      { query: { sid: 'download-1' }, body: '50 %' },
      { body: { message: '50 %', sequence_id: 'download-1' } },
    ])
      expect(await readOne(sent)).toMatchObject({ text: '50 %', fingerprint: 'download-1' })
    expect(await codeOf(read({ headers: { In: '30min' }, body: 'later' }))).toBe('invalid_arguments')
  })
})

test('JSON with a fingerprint says what is the same, and what is over', async () => {
  expect(
    await readOne({ body: { title: 'Disk', text: '97 %', fingerprint: 'disk-a', resolved: true } }),
  ).toEqual({
    title: 'Disk',
    text: '97 %',
    priority: 'default',
    fingerprint: 'disk-a',
    resolved: true,
  })
  // The end of something needs no words, and headers say it, too.
  const over = { text: '', priority: 'default', fingerprint: 'disk-a', resolved: true } as const
  expect(await readOne({ body: { fingerprint: 'disk-a', resolved: true } })).toEqual(over)
  expect(await readOne({ headers: { Fingerprint: 'disk-a', Resolved: 'true' } })).toEqual(over)
  // Without one it is a field as any other.
  expect((await readOne({ body: { text: '97 %', resolved: true } })).text).toContain('resolved')
  expect(await readOne({ body: { text: '97 %', fingerprint: 'disk-a', resolved: 'no' } })).not.toHaveProperty(
    'resolved',
  )
})

test('Apprise: its type is the urgency, and each file is a notice', async () => {
  const body = {
    version: '1.0',
    title: 'Backup',
    message: 'The disk is full',
    attachments: [
      { filename: 'a.png', base64: Buffer.from(png).toString('base64'), mimetype: 'image/png' },
      { filename: 'b.txt', base64: 'aGVsbG8=', mimetype: 'text/plain' },
    ],
    type: 'failure',
  }
  expect(await read({ body })).toMatchObject([
    {
      title: 'Backup',
      text: 'The disk is full',
      priority: 'high',
      tags: ['failure'],
      file: { name: 'a.png' },
    },
    { text: '', file: { name: 'b.txt', bytes: new TextEncoder().encode('hello') } },
  ])
  expect(await readOne({ body: { ...body, attachments: [], type: 'info' } })).toEqual({
    title: 'Backup',
    text: 'The disk is full',
    priority: 'default',
  })
})

const alertmanager = {
  receiver: 'svc',
  status: 'firing',
  alerts: [
    {
      status: 'firing',
      labels: { alertname: 'SvcNotPolling', instance: 'localhost:8000', job: 'svc', severity: 'critical' },
      annotations: { summary: 'No process polls WeChat', description: 'Since 5 minutes.' },
      startsAt: '2026-08-22T16:04:18.123Z',
      endsAt: '0001-01-01T00:00:00Z',
      generatorURL: 'http://prometheus:9090/graph?g0.expr=svc_polling+%3D%3D+0&g0.tab=1',
      fingerprint: '8d9e5b1c3a7f2e60',
    },
    {
      status: 'resolved',
      labels: { alertname: 'DiskFull', severity: 'warning' },
      annotations: {},
      startsAt: '2026-08-22T15:04:18.123Z',
      endsAt: '2026-08-22T16:04:18.123Z',
      generatorURL: '',
      fingerprint: 'c6eadffa33fcdf37',
    },
  ],
  groupLabels: {},
  commonLabels: {},
  commonAnnotations: {},
  externalURL: 'http://alertmanager:9093',
  version: '4',
  groupKey: '{}:{}',
  truncatedAlerts: 3,
}

test('Alertmanager: a notice for each alert, and one for those that it left out', async () => {
  expect(await read({ body: alertmanager })).toEqual([
    {
      title: 'SvcNotPolling',
      text: 'No process polls WeChat\nSince 5 minutes.\ninstance: localhost:8000\njob: svc',
      priority: 'max',
      tags: ['critical'],
      fingerprint: '8d9e5b1c3a7f2e60',
      resolved: false,
    },
    {
      title: 'DiskFull',
      text: '',
      priority: 'default',
      tags: ['warning'],
      fingerprint: 'c6eadffa33fcdf37',
      resolved: true,
    },
    {
      text: '3 more alerts of svc were left out by their sender',
      priority: 'default',
      fingerprint: 'truncated {}:{}',
    },
  ])
  const priorities = { critical: 'high', warning: 'low' } as const
  const mapped = await read({ body: alertmanager, topic: { priorities } })
  expect(mapped.map(({ priority }) => priority)).toEqual(['high', 'low', 'default'])
})

test('Grafana: the same, with its values, its page and its picture', async () => {
  const alert = {
    status: 'firing',
    labels: { alertname: 'High memory usage', team: 'blue', grafana_folder: 'Node alerts' },
    annotations: { summary: 'This alert was triggered for zone us-1' },
    startsAt: '2021-10-12T09:51:03.157076+02:00',
    endsAt: '0001-01-01T00:00:00Z',
    generatorURL: 'https://play.grafana.org/alerting/1afz29v7z/edit',
    fingerprint: 'c6eadffa33fcdf37',
    silenceURL: 'https://play.grafana.org/alerting/silence/new?alertmanager=grafana',
    dashboardURL: 'https://play.grafana.org/d/abc',
    panelURL: '',
    values: { B: 44.23943737541908, C: 1 },
    imageURL: 'https://play.grafana.org/panel.png',
  }
  const body = {
    ...alertmanager,
    alerts: [alert],
    truncatedAlerts: 0,
    version: '1',
    orgId: 1,
    state: 'alerting',
  }
  expect(await readOne({ body: { ...body, title: '[FIRING:1]  (blue)', message: '**Firing**' } })).toEqual({
    title: 'High memory usage',
    text: 'This alert was triggered for zone us-1\nteam: blue\nB=44.24, C=1',
    priority: 'default',
    click: 'https://play.grafana.org/d/abc',
    fingerprint: 'c6eadffa33fcdf37',
    resolved: false,
    file: { url: 'https://play.grafana.org/panel.png' },
  })
})

const github = (event: string, body: object, more: Record<string, string> = {}) =>
  readOne({
    headers: {
      'X-GitHub-Event': event,
      'X-GitHub-Delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      ...more,
    },
    body: { sender: { login: 'Codertocat' }, repository: { full_name: 'Codertocat/Hello-World' }, ...body },
  })

test('GitHub: who did what, and the address of it', async () => {
  const fixed = { title: 'Codertocat/Hello-World', fingerprint: '72d3162e-cc78-11e3-81ab-4c9367dc0958' }
  const push = {
    ref: 'refs/heads/main',
    compare: 'https://github.com/Codertocat/Hello-World/compare/a...b',
    pusher: { name: 'Codertocat' },
    commits: [{ message: 'Fix the door\n\nIt was open.' }, { message: 'Paint it' }],
  }
  expect(await github('push', push)).toEqual({
    ...fixed,
    text: 'Codertocat pushed 2 commits to main\n- Fix the door\n- Paint it',
    priority: 'default',
    click: push.compare,
  })
  const html_url = 'https://github.com/Codertocat/Hello-World/issues/1'
  const issue = { number: 1, title: 'Spelling error in the README file', html_url }
  expect(await github('issues', { action: 'opened', issue })).toEqual({
    ...fixed,
    text: 'Codertocat opened issue #1: Spelling error in the README file',
    priority: 'default',
    click: html_url,
  })
  const textOf = async (event: string, body: object) => (await github(event, body)).text
  expect(await textOf('pull_request', { action: 'closed', pull_request: { ...issue, merged: true } })).toBe(
    'Codertocat merged pull request #1: Spelling error in the README file',
  )
  expect(
    await textOf('issue_comment', { action: 'created', issue, comment: { body: 'I will fix it' } }),
  ).toBe('Codertocat created issue comment #1: Spelling error in the README file\nI will fix it')
  expect(await textOf('ping', { zen: 'Keep it logically awesome.' })).toContain('Keep it logically awesome.')
  expect(await textOf('star', { action: 'created' })).toBe('Codertocat created star')
  const run = { name: 'CI', head_branch: 'main', conclusion: 'failure' }
  expect(await github('workflow_run', { action: 'completed', workflow_run: run })).toMatchObject({
    text: 'workflow run completed: CI on main: failure',
    priority: 'high',
  })
  const begun = { action: 'requested', workflow_run: { ...run, conclusion: null } }
  expect(await github('workflow_run', begun)).toMatchObject({ priority: 'min' })
  // The content type that its page suggests first.
  const form = `payload=${encodeURIComponent(JSON.stringify({ action: 'created', sender: { login: 'Mona' } }))}`
  const headers = { 'X-GitHub-Event': 'star', 'content-type': 'application/x-www-form-urlencoded' }
  expect((await readOne({ headers, body: form })).text).toBe('Mona created star')
})

test('Home Assistant: its three methods', async () => {
  const expected = { title: 'Home', text: 'The washing machine is done', priority: 'default' } as const
  const data = { message: expected.text, title: expected.title, target: 'Mum' }
  expect(await readOne({ body: data })).toEqual(expected)
  expect(await readOne({ query: data })).toEqual(expected)
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  expect(await readOne({ headers, body: `${new URLSearchParams(data)}` })).toEqual(expected)
  // curl claims the same type for any text.
  for (const body of ['50% of message=none', 'a=b', 'done'])
    expect((await readOne({ headers, body })).text).toBe(body)
})

test('forms with a file, and webhooks in the form of Slack', async () => {
  const form = new FormData()
  form.set('message', 'Somebody is at the door')
  form.set('picture', new File([png], 'door.png'))
  const answer = new Response(form)
  const headers = { 'content-type': answer.headers.get('content-type')! }
  expect(await readOne({ headers, body: await answer.bytes() })).toMatchObject({
    text: 'Somebody is at the door',
    file: { name: 'door.png', bytes: png },
  })
  expect((await readOne({ body: { text: 'Build failed', username: 'ci' } })).text).toBe('Build failed')
  const broken = { 'content-type': 'multipart/form-data; boundary=x' }
  expect((await readOne({ headers: broken, body: 'no form' })).text).toBe('no form')
})

describe('what people report of their senders', () => {
  const json = { 'content-type': 'application/json' }
  test.each<[where: string, sent: Sent, expected: Partial<SentNotice>]>([
    // ntfy would show the JSON itself.
    [
      'uptime-kuma#3476, healthchecks#1059: the JSON of ntfy at the address of the topic',
      {
        body: {
          topic: 'Alert',
          title: 'Alert [Uptime-Kuma]',
          message: 'Ntfy alert Testing',
          priority: 3,
          tags: ['test_tube'],
        },
      },
      { title: 'Alert [Uptime-Kuma]', text: 'Ntfy alert Testing', priority: 'default', tags: ['test_tube'] },
    ],
    [
      'webhook#199, misskey#9823: JSON as text/plain',
      {
        headers: { 'content-type': 'text/plain; charset=UTF-8' },
        body: '{"Type":"SubscriptionConfirmation"}',
      },
      { text: 'Type: SubscriptionConfirmation' },
    ],
    [
      'grafana#6822: no content type',
      { body: '{"ruleName":"Test notification","state":"alerting","title":"[Alerting] Test notification"}' },
      { title: '[Alerting] Test notification', text: 'state: alerting' },
    ],
    [
      'webhook#702: words that are neither JSON nor a form',
      {
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: 'date=2024-10-12 devid="FGVMEV" msg="ACK"',
      },
      { text: 'date=2024-10-12 devid="FGVMEV" msg="ACK"' },
    ],
    [
      'home-assistant#140472: an empty message before others',
      { body: { message: '', messages: [{ to: '+12345678', body: 'test msg' }] } },
      { text: 'test msg\nmessages[0].to: +12345678' },
    ],
    [
      'apprise-api#157: a call for the API of Apprise',
      { body: { tag: 'testing', title: 'test', body: 'It failed', type: 'failure' } },
      { title: 'test', text: 'It failed', priority: 'high' },
    ],
    [
      'Pulse#1213: alerts of another form',
      { body: { alertId: 'a', alerts: [{ id: 'a', level: 'critical', resourceName: 'db' }] } },
      { text: 'alerts[0].level: critical\nalerts[0].resourceName: db\nalertId: a\nalerts[0].id: a' },
    ],
    [
      'alertmanager#2398: a severity of its own, and no fingerprint',
      {
        body: {
          version: '4',
          alerts: [
            {
              status: 'firing',
              labels: { alertname: 'Load', severity: 'host/node' },
              annotations: { summary: 'Avg. Load' },
            },
          ],
        },
      },
      {
        title: 'Load',
        text: 'Avg. Load',
        priority: 'default',
        fingerprint: 'alertname: Load,severity: host/node',
      },
    ],
    [
      'grafana#125035: a payload for Gotify',
      { headers: json, body: '{"title":"Host RAM usage","message":"RAM is full","priority":5}' },
      { title: 'Host RAM usage', text: 'RAM is full', priority: 'max' },
    ],
    [
      'grafana#125035: the same with a line break that is not escaped',
      { headers: json, body: '{"title":"Host RAM usage","message":"RAM\nis full"}' },
      { text: '{"title":"Host RAM usage","message":"RAM\nis full"}' },
    ],
    [
      'Overseerr: a picture that is missing',
      {
        body: {
          topic: 'requests',
          title: 'Request',
          message: 'A film',
          priority: 4,
          attach: '',
          click: 'https://requests.example.com/',
        },
      },
      { title: 'Request', text: 'A film', click: 'https://requests.example.com/' },
    ],
    [
      'LanGuard#169, UptimeRobot: its own words beside a message',
      { body: { kind: 'test', message: 'It works', delivery_id: '7', created_at: '2026-09-14' } },
      { text: 'It works\nkind: test\ndelivery_id: 7\ncreated_at: 2026-09-14' },
    ],
    [
      'ntfy#1685: an e-mail beside it',
      {
        headers: { Title: 'MyTitle', Email: 'yes', Icon: 'https://a.b/c.png', Cache: 'no', Firebase: 'no' },
        body: 'Test',
      },
      { title: 'MyTitle', text: 'Test' },
    ],
    [
      'shoutrrr: the title in the address',
      { query: { title: 'Watchtower', tags: '' }, body: 'Found new image' },
      { title: 'Watchtower', text: 'Found new image' },
    ],
    [
      'curl with a line break in a header form',
      { headers: { 'X-Message': 'one\\ntwo' } },
      { text: 'one\ntwo' },
    ],
    [
      'a heredoc of many lines',
      { headers: { 'content-type': 'text/plain' }, body: '\n  a\n  b\n\n' },
      { text: 'a\n  b' },
    ],
    [
      'SNS, deep inside',
      { headers: json, body: '{"Message":"{\\"AlarmName\\":\\"cpu\\"}"}' },
      { text: 'cpu' },
    ],
  ])('%s', async (_, sent, expected) => {
    expect(await readOne(sent)).toMatchObject(expected)
  })

  test('ntfy#608, TREK#1621: a title in Latin-1', async () => {
    const headers = new Headers([['title', Buffer.from('accentué', 'latin1').toString('latin1')]])
    const { notices } = readNotices({ headers, query: {} }, { bytes: new Uint8Array([120]) }, {})
    expect(notices[0]!.title).toBe('accentué')
  })
})

describe('JSON of an unknown form', () => {
  test('is lines, cut, and never refused', async () => {
    const body = {
      event: 'Stop',
      disks: [{ name: 'sda', free: 12.5 }],
      nested: { ok: true },
      nothing: null,
      id: '',
    }
    expect((await readOne({ body })).text).toBe(
      'event: Stop\ndisks[0].name: sda\ndisks[0].free: 12.5\nnested.ok: true',
    )
    for (const [sent, text] of [
      ['[1, 2]', '[0]: 1\n[1]: 2'],
      ['"done"', 'done'],
      ['{}', '{}'],
      ['null', 'null'],
    ] as const)
      expect((await readOne({ headers: { 'content-type': 'application/json' }, body: sent })).text).toBe(text)
    const many = await readOne({
      body: Object.fromEntries(Array.from({ length: 999 }, (_, nth) => [`k${nth}`, 'v'.repeat(999)])),
    })
    expect(many.text.split('\n')).toHaveLength(31)
    expect(many.text.length).toBeLessThan(8000)
    const broken = { headers: { 'content-type': 'application/json' }, body: '{"cut": ' }
    expect((await readOne(broken)).text).toBe('{"cut":')
  })

  test("is read by the template of the topic, and by ntfy's of the request", async () => {
    const template =
      '{{ .alerts[0].labels.alertname }} on {{.alerts[0].labels["instance"]}} ({{ .alerts.1.status }})'
    expect((await readOne({ body: alertmanager, topic: { template } })).text).toBe(
      'SvcNotPolling on localhost:8000 (resolved)',
    )
    const query = { template: 'yes', title: '{{.receiver}}', message: '{{ .status }}!' }
    expect(await readOne({ body: alertmanager, query })).toMatchObject({ title: 'svc', text: 'firing!' })
  })

  test('a template whose fields the body has not leaves the body as it is, and the topic counts it', async () => {
    const topic = { template: '{{ .monitor.name }}: {{ .msg }}' }
    const disk = await readOne({ body: { level: 'error', disk: 'sda is full' }, topic })
    expect(disk).toMatchObject({ text: 'level: error\ndisk: sda is full', unread: { template: true } })
    expect((await readOne({ body: { msg: '', text: 'Backup failed' }, topic })).text).toBe('Backup failed')
    const found = await readOne({ body: { msg: 'down' }, topic })
    expect(found).toEqual({ text: ': down', priority: 'default' })
    const query = { template: '1', title: 'Shop', message: '{{ .nothing }}' }
    expect(await readOne({ body: { state: 'down' }, query })).toMatchObject({
      title: 'Shop',
      text: 'state: down',
    })
    const alerts = await read({ body: alertmanager, topic })
    expect(alerts.map(({ unread }) => unread?.template)).toEqual([true, undefined, undefined])
  })

  test.each([
    ['{{ range .alerts }}x{{ end }}', '{{ range .alerts }}x{{ end }}'],
    ['{{ .alerts', '{{ .alerts'],
    ['{{ .a{{ .status }}', '{{ .afiring'],
    ['{{ .__proto__.constructor }}{{ .alerts.length }}', '2'],
    ['{{ .no.such[7].path }}-{{ .status }}', '-firing'],
    ['{{ .commonLabels }}{{ .receiver }}{{ . | toJson }}', 'svc{{ . | toJson }}'],
    [`{{ .${'a'.repeat(500)} }}`, `{{ .${'a'.repeat(500)} }}`],
  ])('a template has paths alone: %s', async (template, text) => {
    expect((await readOne({ body: alertmanager, topic: { template } })).text).toBe(text)
  })

  test('a template that is long or leads deep ends soon', async () => {
    let deep: unknown = 'end'
    for (let nth = 0; nth < 2000; nth++) deep = { a: deep }
    const body = { deep, long: 'x'.repeat(40_000) }
    const all = await readOne({ body, topic: { template: '{{.long}}'.repeat(400) } })
    expect(all.text).toHaveLength(16_000)
    expect((await readOne({ body, topic: { template: '{{'.repeat(2000) } })).text).toBe('{{'.repeat(2000))
    expect((await readOne({ body, topic: { template: '{{ . }}' } })).text).toContain('deep.a.a')
    const wide = Object.fromEntries(Array.from({ length: 40_000 }, (_, nth) => [`k${nth}`, null]))
    const query = { template: 'yes', message: `${'{{.}}'.repeat(3000)}x` }
    expect((await readOne({ body: wide, query })).text).toBe('triggered')
    let nested: unknown = Object.keys(wide).slice(0, 4000)
    for (let nth = 0; nth < 3; nth++) nested = { a: nested }
    const each = await readOne({ body: nested, topic: { template: '{{.a}}-{{.a.a}}-{{.a.a.a}}' } })
    expect(each.text.split('-')).toEqual([expect.any(String), expect.any(String), ''])
  })
})

describe('hostile bodies', () => {
  test('wrong types in each field', async () => {
    for (const value of [null, 7, true, [], {}, [[]], { toString: 1 }, '\u0000', '\ud800']) {
      const every = Object.fromEntries(
        [
          'title',
          'message',
          'priority',
          'tags',
          'click',
          'attach',
          'filename',
          'sequence_id',
          'topic',
          'alerts',
        ]
          .concat([
            'version',
            'type',
            'attachments',
            'labels',
            'annotations',
            'text',
            'values',
            'truncatedAlerts',
          ])
          .map(key => [key, value]),
      )
      const shapes = [
        every,
        { ...every, message: 'x' },
        { alerts: [{ ...every, status: 'firing', labels: every }] },
      ]
      for (const body of [...shapes, { ...every, message: 'x', version: '1.0', type: 'info' }]) {
        // As ntfy does, a priority that is none is refused.
        const readOrCode = (isRoot?: true) =>
          read({ body, ...(isRoot && { isRoot }) }).catch(({ code }) => code)
        for (const result of [await readOrCode(), await readOrCode(true)])
          if (result !== 'invalid_arguments')
            for (const notice of result) expect(typeof notice.text).toBe('string')
        await read({ body, headers: { 'x-github-event': 'push' } })
        await read({
          body: { commits: [value], issue: value, sender: value },
          headers: { 'x-github-event': 'issues' },
        })
      }
    }
  })

  test('line ends and control characters in a title, addresses of other kinds, and bytes that are no text', async () => {
    const title = '=?utf-8?Q?Hello=0D=0ASet-Cookie:_a=1=1B[31m?='
    const notice = await readOne({
      headers: { Title: title, Click: 'javascript:alert(1)' },
      body: 'x\u0007\u202e\u2028y',
    })
    expect(notice).toEqual({ title: 'Hello Set-Cookie: a=1[31m', text: 'x\ny', priority: 'default' })
    const attach = { headers: { Attach: 'file:///etc/passwd' } }
    const { file, text } = await readOne(attach)
    expect([file, text.startsWith('file:///etc/passwd (')]).toEqual([undefined, true])
    const bytes = new Uint8Array([0x7b, 0, 0xff, 0xfe])
    expect(
      (await readOne({ headers: { 'content-type': 'application/json' }, body: bytes })).file?.bytes,
    ).toEqual(bytes)
  })

  test('millions of tags cost nothing', async () => {
    const body = { message: 'x', tags: 'a,'.repeat(5_000_000) }
    expect((await readOne({ body })).tags).toHaveLength(20)
  })

  test('a form with very many parts is refused', async () => {
    const part = '--b\r\ncontent-disposition: form-data; name="k"\r\n\r\nv\r\n'
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    const body = `${part.repeat(2000)}--b--\r\n`
    expect(await codeOf(readOne({ headers, body }))).toBe('payload_too_large')
  })

  test('a field twice: the last one of JSON counts', async () => {
    const headers = { 'content-type': 'application/json' }
    expect((await readOne({ headers, body: '{"message":"a","message":"b"}' })).text).toBe('b')
  })
})
