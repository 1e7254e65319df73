/**
 * Bodies of services on the net and of forges and push services in China, with values of our own, as in `notify-programs.test.ts`.
 */
import { expect, test } from 'bun:test'
import { type ProgramRow, read, testPrograms } from './notify-rows.ts'

const form = { 'content-type': 'application/x-www-form-urlencoded' }

const azure = (more: object) => ({
  schemaId: 'azureMonitorCommonAlertSchema',
  data: {
    essentials: {
      alertId: '/subscriptions/1111/providers/Microsoft.AlertsManagement/alerts/b956',
      alertRule: 'CPU of db1',
      severity: 'Sev1',
      signalType: 'Metric',
      monitoringService: 'Platform',
      alertTargetIDs: ['/subscriptions/1111/resourcegroups/rg/providers/microsoft.compute/db1'],
      configurationItems: ['db1'],
      firedDateTime: '2026-01-05T03:12:00.000Z',
      description: 'The CPU of db1 is busy',
      essentialsVersion: '1.0',
      alertContextVersion: '1.0',
      investigationLink: 'https://portal.azure.com/#view/x',
      ...more,
    },
    alertContext: {
      properties: null,
      conditionType: 'SingleResourceMultipleMetricCriteria',
      condition: {
        windowSize: 'PT5M',
        allOf: [
          { metricName: 'Percentage CPU', operator: 'GreaterThan', threshold: '80', metricValue: 96.5 },
        ],
      },
    },
    customProperties: null,
  },
})

const gitee = (event: string, body: object): ProgramRow => ({
  headers: { 'x-gitee-event': event, 'x-gitee-token': 'pwd' },
  body: {
    hook_id: 1,
    hook_url: 'https://gitee.com/o/g/hooks/1/edit',
    password: 'pwd',
    timestamp: '1576754827988',
    sign: 'rLEHLuZRIQHuTPeX=',
    sender: { login: 'ming', name: '小明' },
    repository: { full_name: 'o/g', html_url: 'https://gitee.com/o/g' },
    ...body,
  },
  has: [],
  hasNot: ['pwd', 'rLEH', 'hook'],
})

const pingdom = {
  check_id: 12345,
  check_name: 'Shop',
  check_type: 'HTTP',
  check_params: {
    basic_auth: false,
    encryption: true,
    full_url: 'https://shop.example/pay',
    header: 'User-Agent:Pingdom.com_bot',
    hostname: 'shop.example',
    ipv6: false,
    port: 443,
    url: '/pay',
  },
  tags: [{ name: 'production' }, { name: 'web' }],
  importance_level: 'HIGH',
  state_changed_timestamp: 1767225600,
  state_changed_utc_time: '2026-01-01T00:00:00',
  long_description: 'Invalid certificate',
  description: 'HTTP error 500',
  first_probe: { ip: '192.0.2.1', ipv6: '2001:db8::5', location: 'Stockholm, Sweden' },
}

testPrograms({
  // https://learn.microsoft.com/azure/azure-monitor/alerts/alerts-payload-samples
  'Azure Monitor': {
    body: azure({ monitorCondition: 'Fired' }),
    head: 'The CPU of db1 is busy',
    has: ['Sev1', 'Fired', 'alertRule: CPU of db1', '96.5', 'https://portal.azure.com/#view/x'],
    notice: { priority: 'max' },
  },
  'Azure Monitor: over': {
    body: azure({ monitorCondition: 'Resolved', resolvedDateTime: '2026-01-05T03:22:00.000Z' }),
    has: ['Resolved', 'CPU of db1'],
    notice: { priority: 'default' },
  },
  // https://gist.github.com/joemiller/f54d464bbbd97ad956935771489f6199
  'Google Cloud Monitoring': {
    body: {
      incident: {
        incident_id: '0.lj2va6zdkemq',
        resource_id: '',
        resource_name: 'shop db1',
        resource: {
          type: 'gce_instance',
          labels: { instance_id: '8979287136362607111', zone: 'europe-west3' },
        },
        started_at: 1767225600,
        policy_name: 'Databases',
        condition_name: 'CPU is high',
        url: 'https://app.google.stackdriver.com/incidents/0.lj?project=shop',
        severity: 'Critical',
        documentation: { content: 'Restart the job.', mime_type: 'text/markdown' },
        state: 'open',
        ended_at: null,
        summary: 'CPU usage for shop db1 is above the threshold of 0.8 with a value of 0.95.',
      },
      version: '1.2',
    },
    head: 'CPU usage for shop db1 is above',
    has: ['Restart the job.', 'open', 'Databases', 'https://app.google.stackdriver.com/incidents/'],
    hasNot: ['8979287136362607111'],
    notice: { priority: 'max' },
  },
  // https://betterstack.com/docs/uptime/api/incidents-api-response-params
  'Better Stack': {
    body: {
      data: {
        id: '25',
        type: 'incident',
        attributes: {
          name: 'Shop',
          url: 'https://shop.example',
          http_method: 'get',
          cause: 'Status 404',
          incident_group_id: null,
          started_at: '2026-03-09T17:37:59.662Z',
          acknowledged_at: null,
          resolved_at: null,
          status: 'Started',
          team_name: 'Ops',
          response_options: '{"headers":{"Server":"nginx"}}',
          call: false,
          email: true,
        },
        relationships: { monitor: { data: { id: '2', type: 'monitor' } } },
      },
    },
    head: 'Shop\ndata.attributes.cause: Status 404',
    has: ['Started', 'https://shop.example'],
  },
  // https://www.pingdom.com/resources/webhooks/
  Pingdom: {
    body: { ...pingdom, previous_state: 'UP', current_state: 'DOWN' },
    head: 'Shop',
    has: ['HTTP error 500', 'Invalid certificate', 'current_state: DOWN', 'https://shop.example/pay'],
    notice: { priority: 'high', tags: ['production', 'web'] },
  },
  'Pingdom: over': {
    body: { ...pingdom, previous_state: 'DOWN', current_state: 'UP' },
    has: ['current_state: UP'],
    notice: { priority: 'default' },
  },
  // https://grafana.com/docs/oncall/latest/integrations/uptimerobot/
  UptimeRobot: {
    headers: form,
    body: 'monitorID=1&monitorURL=https%3A%2F%2Fshop.example&monitorFriendlyName=Shop&alertType=1&alertTypeFriendlyName=Down&alertDetails=Connection+Timeout&alertDuration=0',
    head: 'Shop\nalertDetails: Connection Timeout',
    has: ['Down', 'https://shop.example'],
  },
  // https://developers.squadcast.com/outgoing-webhooks/payload/v1/incident-triggered/
  Squadcast: {
    body: {
      id: '61c075f78589dca75fdb2f44',
      event_type: 'incident_triggered',
      organization: { id: '609b8e9978d2770008db8638', name: 'ACME' },
      service: { id: '609b8e9e78d2770008db8639', name: 'Shop', slug: 'shop' },
      message: 'The CPU is throttled',
      description: 'Over 90 % for 2 hours',
      status: 'triggered',
      created_at: '2026-01-05T11:23:24.11Z',
      tags: { severity: { value: 'critical', color: '#FF0A49' } },
      event_count: 1,
    },
    head: 'The CPU is throttled\ndescription: Over 90 %',
    has: ['Shop', 'triggered', 'critical'],
    notice: { priority: 'max' },
  },
  // https://docs.n8n.io/flow-logic/error-handling/
  n8n: {
    body: [
      {
        execution: {
          id: '231',
          url: 'https://n8n.example/execution/231',
          retryOf: '34',
          error: { message: 'The shop does not answer', stack: 'Error: …\n at a' },
          lastNodeExecuted: 'HTTP',
          mode: 'trigger',
        },
        workflow: { id: '1', name: 'Orders' },
      },
    ],
    head: 'The shop does not answer\nworkflow.name: Orders',
    has: ['https://n8n.example/execution/231'],
    hasNot: ['[0]'],
  },
  // https://learn.microsoft.com/azure/devops/service-hooks/events
  'Azure DevOps': {
    body: {
      subscriptionId: '4a5d',
      notificationId: 1,
      eventType: 'build.complete',
      publisherId: 'tfs',
      message: {
        text: 'Build 7 failed',
        html: 'Build <a href="#">7</a> failed',
        markdown: 'Build [7](#) failed',
      },
      resource: {
        uri: 'vstfs:///Build/Build/7',
        id: 7,
        url: 'https://dev.azure.com/acme/_apis/build/Builds/7',
        status: 'failed',
        definition: { name: 'CI', url: 'https://dev.azure.com/acme/_apis/build/Definitions/1' },
      },
      createdDate: '2026-01-05T03:12:00.000Z',
    },
    head: 'Build 7 failed',
    has: ['build.complete', 'CI'],
    hasNot: ['<a', '[7]'],
  },
  // https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/
  'Bitbucket: a build': {
    body: {
      actor: { display_name: 'Anna', links: { avatar: { href: 'https://avatar.example/a' } } },
      repository: {
        full_name: 'acme/shop',
        name: 'shop',
        links: { html: { href: 'https://bitbucket.org/acme/shop' } },
      },
      commit_status: {
        name: 'Unit tests',
        description: 'Build failed',
        state: 'FAILED',
        key: 'u',
        url: 'https://ci.example/1',
        type: 'build',
        links: { commit: { href: 'https://api.bitbucket.org/2.0/x' } },
      },
    },
    head: 'Unit tests\ncommit_status.description: Build failed',
    has: ['FAILED', 'acme/shop', 'https://ci.example/1'],
  },
  // https://docs.sonarsource.com/sonarqube-server/project-administration/webhooks
  SonarQube: {
    body: {
      serverUrl: 'https://sonar.example',
      taskId: 'AVh21JS2JepAEhwQ-b3u',
      status: 'SUCCESS',
      project: { key: 'shop', name: 'Shop', url: 'https://sonar.example/dashboard?id=shop' },
      qualityGate: {
        conditions: [
          { errorThreshold: '80', metric: 'new_coverage', operator: 'LESS_THAN', status: 'ERROR' },
        ],
        name: 'Way',
        status: 'ERROR',
      },
    },
    head: 'Shop',
    has: ['qualityGate.status: ERROR', 'new_coverage', 'https://sonar.example/dashboard?id=shop'],
  },
  // https://help.gitee.com/webhook/gitee-webhook-push-data-format
  'Gitee: a push': {
    ...gitee('Push Hook', {
      hook_name: 'push_hooks',
      ref: 'refs/heads/main',
      before: '0a',
      after: '1b',
      total_commits_count: 2,
      commits_more_than_ten: false,
      deleted: false,
      compare: 'https://gitee.com/o/g/compare/0a...1b',
      commits: [{ id: '1b', message: '修复登录\n\n详情', author: { name: '小明' } }],
      pusher: { name: '小明', username: 'ming' },
      enterprise: null,
    }),
    head: '小明 pushed 2 commits to main\n- 修复登录\nand 1 more',
    notice: { title: 'o/g', click: 'https://gitee.com/o/g/compare/0a...1b' },
  },
  'Gitee: an issue': {
    ...gitee('Issue Hook', {
      hook_name: 'issue_hooks',
      action: 'open',
      title: '登录失败',
      issue: { number: 'I1', title: '登录失败', html_url: 'https://gitee.com/o/g/issues/I1' },
    }),
    head: 'ming opened issue #I1: 登录失败',
    notice: { title: 'o/g', click: 'https://gitee.com/o/g/issues/I1' },
  },
  'Gitee: a comment': {
    ...gitee('Note Hook', {
      hook_name: 'note_hooks',
      action: 'comment',
      noteable_type: 'PullRequest',
      comment: { body: '看起来不错', html_url: 'https://gitee.com/o/g/pulls/3#note_1' },
      pull_request: { number: 3, title: '修复', html_url: 'https://gitee.com/o/g/pulls/3' },
    }),
    has: ['ming', '#3', '修复', '看起来不错'],
    notice: { click: 'https://gitee.com/o/g/pulls/3#note_1' },
  },
  'Gitee: merged': {
    ...gitee('Merge Request Hook', {
      hook_name: 'merge_request_hooks',
      action: 'merge',
      pull_request: { number: 3, title: '修复', html_url: 'https://gitee.com/o/g/pulls/3', state: 'merged' },
    }),
    head: 'ming merged pull request #3: 修复',
  },
  'Gitee: for a robot of WeCom': {
    ...gitee('Push Hook', {
      hook_name: 'push_hooks',
      msgtype: 'markdown',
      markdown: { content: '[小明](https://gitee.com/ming) 推送到了 [o/g](https://gitee.com/o/g)' },
    }),
    head: '小明 (https://gitee.com/ming) 推送到了 o/g (https://gitee.com/o/g)',
  },
  // https://github.com/gogs/docs-api
  'Gogs: a push': {
    headers: { 'x-gogs-event': 'push' },
    body: {
      ref: 'refs/heads/master',
      compare_url: 'https://gogs.example/g/a/compare/28e1...bffe',
      commits: [{ id: 'bffe', message: 'Fix the door', author: { name: 'Anna' } }],
      repository: { full_name: 'g/a', html_url: 'https://gogs.example/g/a' },
      pusher: { login: 'anna' },
      sender: { login: 'anna' },
    },
    head: 'anna pushed 1 commit to master\n- Fix the door',
    has: [],
    notice: { title: 'g/a', click: 'https://gogs.example/g/a/compare/28e1...bffe' },
  },
  // https://wxpusher.zjiecode.com/docs/
  WxPusher: {
    body: {
      appToken: 'AT_secret',
      content: '<h1>磁盘已满</h1><br/><p style="color:red;">只剩 1%</p>',
      summary: '磁盘已满',
      contentType: 2,
      topicIds: [123],
      uids: ['UID_xxxx'],
      url: 'https://nas.example',
      verifyPay: false,
    },
    head: '磁盘已满',
    has: ['只剩 1%'],
    hasNot: ['AT_secret', 'UID_', '123', '<', 'verifyPay'],
    notice: { click: 'https://nas.example' },
  },
  // https://www.pushplus.plus/doc/guide/api.html
  PushPlus: {
    body: {
      token: 'secret',
      title: '磁盘',
      content: '# 已满\n- **1%** 剩余',
      template: 'markdown',
      channel: 'wechat',
      topic: 'ops',
      callbackUrl: 'https://own.example/done',
    },
    head: '已满\n- 1% 剩余',
    has: [],
    hasNot: ['secret', 'own.example', '*'],
    notice: { title: '磁盘' },
  },
  // https://sct.ftqq.com/sendkey
  'Server酱 Turbo': {
    headers: form,
    body: 'title=%E7%A3%81%E7%9B%98&desp=%E7%A3%81%E7%9B%98%20**%E5%B7%B2%E6%BB%A1**&tags=nas%7Cdisk&noip=1',
    head: '磁盘 已满',
    has: [],
    hasNot: ['*', 'noip'],
    notice: { title: '磁盘', tags: ['nas', 'disk'] },
  },
  // https://kb.synology.com/en-global/DSM/help/Chat/chat_integration
  'Synology: a chat': {
    headers: form,
    body: new URLSearchParams({
      payload: JSON.stringify({
        text: 'See <https://nas.example|the NAS>',
        file_url: 'https://nas.example/a.png',
      }),
    }).toString(),
    head: 'See the NAS (https://nas.example)',
    has: [],
    notice: { file: { url: 'https://nas.example/a.png' } },
  },
  // https://nrp.cbnventures.io/docs/interpreters/synology/
  'Synology: its system': {
    body: { text: 'Volume 1 is running low on disk space.', prefix: 'NAS | 2026-01-15 03:00:00' },
    head: 'Volume 1 is running low on disk space.',
    has: ['NAS | 2026-01-15 03:00:00'],
  },
  // https://pve.proxmox.com/pve-docs/chapter-notifications.html: by a template with all of its fields.
  Proxmox: {
    body: {
      title: 'vzdump backup status (pve): backup failed',
      message: 'Details\n=======\n100 db failed',
      severity: 'error',
      timestamp: 1767225600,
      fields: { type: 'vzdump', hostname: 'pve' },
    },
    head: 'Details',
    has: ['100 db failed', 'pve'],
    notice: { title: 'vzdump backup status (pve): backup failed', priority: 'high' },
  },
})

test('what is urgent deeper inside raises a notice, and lowers none; what is over, or about somebody else, raises none', async () => {
  const priorityOf = async (body: unknown) => (await read({ body }))[0]!.priority
  for (const [body, priority] of [
    [{ issue: { title: 'Orders fail', priority: { name: 'Highest' } } }, 'max'],
    [{ alert: { text: 'a', severity: 'low' } }, 'default'],
    [{ alert: { text: 'a', severity: 'low' }, incident: { urgency: 'high' } }, 'high'],
    [{ alert: { text: 'a', severity: 'critical', status: 'closed' } }, 'default'],
    [{ alert: { text: 'a', severity: 'critical' }, previous_status: 'ok' }, 'max'],
    [{ severity: 'info', alert: { text: 'a', severity: 'critical' } }, 'low'],
    [{ alert: { text: 'a', severity: 9 } }, 'default'],
  ] as const)
    expect([body, await priorityOf(body)]).toEqual([body, priority])
})

test('a state is shown each time that it is said, and a secret never, whatever the case of its name', async () => {
  const body = {
    a: { status: 'FAILED' },
    b: { status: 'FAILED', clientSecret: 'abc', accessToken: 'def', tokens: 7 },
  }
  const [{ text } = { text: '' }] = await read({ body })
  for (const part of ['a.status: FAILED', 'b.status: FAILED', 'tokens: 7']) expect(text).toContain(part)
  for (const part of ['abc', 'def']) expect(text).not.toContain(part)
})
