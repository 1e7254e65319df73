/**
 * Bodies of programs that watch, build and play, with values of our own. Each has the structure that the program's sources or
 * documents show, whose address stands with it: what a person reads first, what else, and what is only for machines.
 */
import { expect, test } from 'bun:test'
import { type ProgramRow, read, testPrograms } from './notify-rows.ts'

const alarm = {
  AlarmName: 'api-errors',
  AlarmDescription: 'The API answers with errors',
  AWSAccountId: '111122223333',
  AlarmConfigurationUpdatedTimestamp: '2026-01-05T01:45:48.392+0000',
  NewStateValue: 'ALARM',
  NewStateReason: 'Threshold Crossed: 1 datapoint [7.0] was greater than the threshold (1.0).',
  StateChangeTime: '2026-01-05T03:12:00.006+0000',
  Region: 'EU (Frankfurt)',
  AlarmArn: 'arn:aws:cloudwatch:eu-central-1:111122223333:alarm:api-errors',
  OldStateValue: 'OK',
  OKActions: ['arn:aws:sns:eu-central-1:111122223333:ops'],
  AlarmActions: ['arn:aws:sns:eu-central-1:111122223333:ops'],
  InsufficientDataActions: [],
  Trigger: {
    MetricName: 'Errors',
    Namespace: 'AWS/Lambda',
    StatisticType: 'Statistic',
    Statistic: 'SUM',
    Unit: null,
    Dimensions: [{ value: 'api', name: 'FunctionName' }],
    Period: 60,
    EvaluationPeriods: 1,
    DatapointsToAlarm: 1,
    ComparisonOperator: 'GreaterThanOrEqualToThreshold',
    Threshold: 1,
    TreatMissingData: 'missing',
    EvaluateLowSampleCountPercentile: '',
  },
}
const sns = (Message: string, Subject?: string) => ({
  Type: 'Notification',
  MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
  TopicArn: 'arn:aws:sns:eu-central-1:111122223333:ops',
  ...(Subject && { Subject }),
  Message,
  Timestamp: '2026-01-05T03:12:00.655Z',
  SignatureVersion: '1',
  Signature: 'EXAMPLEw6JRN==',
  SigningCertURL: 'https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-f3ec.pem',
  UnsubscribeURL:
    'https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:x:1:y:2bcf',
})
const kuma = {
  heartbeat: {
    monitorID: 10,
    status: 0,
    time: '2026-01-05 03:12:00.120',
    msg: 'connect ECONNREFUSED',
    important: true,
    duration: 61,
  },
  monitor: { id: 10, name: 'Shop', url: 'https://shop.example', type: 'http', interval: 60 },
  msg: '[Shop] [🔴 Down] connect ECONNREFUSED',
}
async function form(fields: Record<string, string>, file?: string) {
  const data = new FormData()
  for (const [name, value] of Object.entries(fields)) data.set(name, value)
  if (file) data.set('thumb', new File(['jpeg'], file, { type: 'image/jpeg' }))
  const answer = new Response(data)
  return { headers: { 'content-type': answer.headers.get('content-type')! }, body: await answer.bytes() }
}
const plex = {
  event: 'library.new',
  user: true,
  owner: true,
  Account: { id: 1, thumb: 'https://plex.tv/users/1022b120ffbaa/avatar?c=1', title: 'anna' },
  Server: { title: 'Office', uuid: '5466' },
  Player: { local: true, publicAddress: '200.200.200.200', title: 'Plex Web', uuid: 'r6yf' },
  Metadata: {
    librarySectionType: 'show',
    ratingKey: '19',
    key: '/library/metadata/19',
    guid: 'plex://episode/5d9',
    librarySectionTitle: 'TV',
    librarySectionID: 2,
    type: 'episode',
    title: 'Pilot',
    grandparentKey: '/library/metadata/1',
    parentKey: '/library/metadata/2',
    grandparentTitle: 'The Show',
    parentTitle: 'Season 1',
    summary: 'It begins.',
    index: 1,
    parentIndex: 1,
    thumb: '/library/metadata/19/thumb/14',
    addedAt: 1700000000,
    updatedAt: 1700000000,
  },
}

const rows: Record<string, ProgramRow> = {
  // https://docs.aws.amazon.com/sns/latest/dg/http-notification-json.html
  'AWS SNS: an alarm of CloudWatch': {
    body: JSON.stringify(sns(JSON.stringify(alarm), 'ALARM: "api-errors" in EU (Frankfurt)')),
    headers: { 'content-type': 'text/plain; charset=UTF-8', 'x-amz-sns-message-type': 'Notification' },
    has: ['The API answers with errors', 'Threshold Crossed', 'ALARM', 'other fields'],
    hasNot: ['{"', 'EXAMPLE', 'Signing', 'Unsubscribe', 'arn:aws'],
    notice: { title: 'ALARM: "api-errors" in EU (Frankfurt)' },
  },
  'AWS SNS: a text': {
    body: JSON.stringify(sns('Hello world')),
    headers: { 'content-type': 'text/plain; charset=UTF-8' },
    head: 'Hello world',
    has: [],
    hasNot: ['Signature', 'MessageId', 'Unsubscribe'],
  },
  'AWS SNS: the question whether to subscribe': {
    body: JSON.stringify({
      Type: 'SubscriptionConfirmation',
      MessageId: '165545c9',
      Token: '2336412f37',
      TopicArn: 'arn:aws:sns:x:1:ops',
      Message:
        'You have chosen to subscribe to the topic arn:aws:sns:x:1:ops.\nTo confirm the subscription, visit the SubscribeURL included in this message.',
      SubscribeURL:
        'https://sns.x.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:x:1:ops&Token=2336412f37',
      Timestamp: '2026',
      SignatureVersion: '1',
      Signature: 'EX',
      SigningCertURL: 'https://sns.x.amazonaws.com/S.pem',
    }),
    headers: { 'content-type': 'text/plain; charset=UTF-8' },
    head: 'You have chosen',
    has: ['ConfirmSubscription'],
    hasNot: ['Signature'],
  },
  // https://support.atlassian.com/opsgenie/docs/opsgenie-edge-connector-alert-action-data/
  Opsgenie: {
    body: {
      source: { name: 'web', type: 'API' },
      alert: {
        updatedAt: 1420452193166002000,
        tags: ['db', 'prod'],
        teams: ['team1'],
        recipients: ['r1'],
        message: 'Disk of db1 is full',
        username: 'anna@example.com',
        alertId: '0526',
        source: 'anna@example.com',
        alias: 'disk-db1',
        tinyId: '23',
        createdAt: 1420452191104,
        userId: 'daed',
        entity: 'db1',
        description: 'Only 1 % is left',
        priority: 'P1',
      },
      action: 'Create',
      integrationId: '37c8',
      integrationName: 'Phone',
    },
    head: 'Disk of db1 is full',
    has: ['Only 1 % is left', 'P1', 'Create'],
    hasNot: ['0526', '1420452191104'],
  },
  // https://developer.pagerduty.com/docs/webhooks-overview
  'Linear: an urgent issue': {
    body: {
      action: 'create',
      type: 'Issue',
      data: {
        title: 'Crash on start',
        number: 12,
        priority: 1,
        priorityLabel: 'Urgent',
        team: { key: 'APP' },
      },
      url: 'https://linear.app/acme/issue/APP-12',
    },
    head: 'Crash on start',
    has: ['Urgent', 'APP'],
    notice: { priority: 'max' },
  },
  'PagerDuty: a priority above its urgency': {
    body: {
      event: {
        event_type: 'incident.triggered',
        data: { title: 'DB is down', status: 'triggered', urgency: 'high', priority: { summary: 'P1' } },
      },
    },
    head: 'DB is down',
    has: ['urgency: high'],
    notice: { priority: 'max' },
  },
  PagerDuty: {
    body: {
      event: {
        id: '01DEN4HPBQAAAG05V5QQYBRZMF',
        event_type: 'incident.triggered',
        resource_type: 'incident',
        occurred_at: '2026-01-05T14:30:00.000Z',
        agent: {
          html_url: 'https://acme.pagerduty.com/users/PLH1HKV',
          id: 'PLH1HKV',
          self: 'https://api.pagerduty.com/users/PLH1HKV',
          summary: 'Monitoring',
          type: 'user_reference',
        },
        client: null,
        data: {
          id: 'PGR0VU2',
          type: 'incident',
          self: 'https://api.pagerduty.com/incidents/PGR0VU2',
          html_url: 'https://acme.pagerduty.com/incidents/PGR0VU2',
          number: 2,
          status: 'triggered',
          incident_key: 'd3640fbd41094207a1c11e58e46b1662',
          created_at: '2026-01-05T14:30:00Z',
          title: 'Orders fail',
          service: {
            html_url: 'https://acme.pagerduty.com/services/PF9KMXH',
            id: 'PF9KMXH',
            self: 'https://api.pagerduty.com/services/PF9KMXH',
            summary: 'Shop',
            type: 'service_reference',
          },
          assignees: [
            {
              html_url: 'https://acme.pagerduty.com/users/PTUXL6G',
              id: 'PTUXL6G',
              self: 'https://api.pagerduty.com/users/PTUXL6G',
              summary: 'Anna',
              type: 'user_reference',
            },
          ],
          escalation_policy: {
            html_url: 'https://acme.pagerduty.com/escalation_policies/PUS0KTE',
            id: 'PUS0KTE',
            self: 'https://api.pagerduty.com/escalation_policies/PUS0KTE',
            summary: 'Default',
            type: 'escalation_policy_reference',
          },
          teams: [],
          priority: {
            html_url: 'https://acme.pagerduty.com/account/incident_priorities',
            id: 'PSO75BM',
            self: 'https://api.pagerduty.com/priorities/PSO75BM',
            summary: 'P1',
            type: 'priority_reference',
          },
          urgency: 'high',
          conference_bridge: null,
          resolve_reason: null,
        },
      },
    },
    head: 'Orders fail',
    has: ['Shop', 'triggered', 'urgency: high', 'https://acme.pagerduty.com/incidents/PGR0VU2'],
    hasNot: ['api.pagerduty.com', 'user_reference', '2026-01-05T14:30'],
  },
  'PagerDuty: a note': {
    body: {
      event: {
        id: '01D3',
        event_type: 'incident.annotated',
        resource_type: 'incident',
        occurred_at: '2026-01-05T02:14:27.865Z',
        agent: {
          html_url: 'https://acme.pagerduty.com/users/PBC5J6U',
          id: 'PBC5J6U',
          self: 'https://api.pagerduty.com/users/PBC5J6U',
          summary: 'Anna',
          type: 'user_reference',
        },
        client: null,
        data: {
          incident: {
            html_url: 'https://acme.pagerduty.com/incidents/Q20',
            id: 'Q20',
            self: 'https://api.pagerduty.com/incidents/Q20',
            summary: 'Orders fail',
            type: 'incident_reference',
          },
          id: 'PG1HV14',
          content: 'I restart it',
          trimmed: false,
          type: 'incident_note',
        },
      },
    },
    head: 'Orders fail',
    has: ['I restart it', 'Anna', 'incident.annotated'],
    hasNot: ['user_reference'],
  },
  // https://learn.netdata.cloud/docs/alerts-&-notifications/notifications/centralized-cloud-notifications/webhook
  Netdata: {
    body: {
      message: 'ram_in_use on db1 raised to critical',
      alarm: 'ram_in_use',
      info: 'system memory utilization',
      chart: 'system.ram',
      context: 'system.ram',
      space: 'Home',
      Rooms: { 'All nodes': 'https://app.netdata.cloud/spaces/home/rooms/all' },
      family: 'ram',
      class: 'Utilization',
      severity: 'critical',
      date: '2026-01-05T03:12:00Z',
      duration: '5 minutes',
      additional_active_critical_alerts: 0,
      additional_active_warning_alerts: 2,
      alarm_url: 'https://app.netdata.cloud/spaces/home/alerts/1',
    },
    head: 'ram_in_use on db1 raised to critical',
    has: ['system memory utilization', 'https://app.netdata.cloud/spaces/home/alerts/1'],
    hasNot: [],
    notice: { priority: 'max' },
  },
  'Netdata: a host': {
    body: {
      message: 'db1 is unreachable',
      url: 'https://app.netdata.cloud/n/1',
      host: 'db1',
      severity: 'critical',
      status: { reachable: false, text: 'unreachable' },
    },
    head: 'db1 is unreachable',
    has: ['host: db1'],
    hasNot: [],
    notice: { priority: 'max', click: 'https://app.netdata.cloud/n/1' },
  },
  // https://developers.cloudflare.com/notifications/reference/webhook-payload-schema/
  Cloudflare: {
    body: {
      name: 'Origin down',
      text: 'The origin of shop.example is not reachable.',
      data: { pool: 'eu', healthy: false },
      ts: 1767225600,
      account_id: '9035f5',
      policy_id: '0d3e',
      policy_name: 'Origin down',
      alert_type: 'real_origin_monitoring',
      alert_correlation_id: 'c1',
      alert_event: 'ALERT_STATE_EVENT_START',
    },
    head: 'The origin of shop.example is not reachable.',
    has: ['Origin down', 'ALERT_STATE_EVENT_START'],
    hasNot: [],
  },
  // https://github.com/jenkinsci/notification-plugin
  Jenkins: {
    body: {
      name: 'shop',
      display_name: 'shop',
      url: 'job/shop/',
      build: {
        full_url: 'http://ci.example/job/shop/18/',
        number: 18,
        queue_id: 4,
        timestamp: 1767225600000,
        duration: 1200,
        phase: 'COMPLETED',
        status: 'FAILURE',
        url: 'job/shop/18/',
        scm: {
          url: 'https://git.example/shop.git',
          branch: 'origin/main',
          commit: 'c6d86dc',
          changes: [],
          culprits: ['Anna'],
        },
        log: '',
        notes: '',
        artifacts: {},
        test_summary: { total: 10, failed: 2, passed: 8, skipped: 0, failed_tests: ['a'] },
      },
    },
    head: 'shop',
    has: ['build.status: FAILURE', 'http://ci.example/job/shop/18/', 'failed: 2'],
    hasNot: ['1767225600000', 'queue_id'],
  },
  // https://github.com/Sonarr/Sonarr/blob/develop/src/NzbDrone.Core/Notifications/Webhook/WebhookBase.cs
  'Sonarr: a grab': {
    body: {
      series: {
        id: 1,
        title: 'The Show',
        titleSlug: 'the-show',
        path: '/tv/The Show',
        tvdbId: 9,
        tvMazeId: 3,
        tmdbId: 4,
        imdbId: 'tt1',
        type: 'standard',
        year: 2021,
        genres: ['Drama'],
        images: [{ coverType: 'poster', url: '/x.jpg', remoteUrl: 'https://art.example/x.jpg' }],
        tags: ['kids'],
      },
      episodes: [
        {
          id: 3,
          episodeNumber: 2,
          seasonNumber: 1,
          title: 'Pilot',
          overview: 'It begins.',
          airDate: '2021-01-01',
          airDateUtc: '2021-01-01T00:00:00Z',
          seriesId: 1,
          tvdbId: 5,
        },
      ],
      release: {
        quality: 'WEBDL-1080p',
        qualityVersion: 1,
        releaseGroup: 'GRP',
        releaseTitle: 'The.Show.S01E02.1080p',
        indexer: 'idx',
        size: 99,
        customFormatScore: 0,
        customFormats: [],
      },
      downloadClient: 'qBittorrent',
      downloadClientType: 'qBittorrent',
      downloadId: 'ABC',
      customFormatInfo: { customFormats: [], customFormatScore: 0 },
      eventType: 'Grab',
      instanceName: 'Sonarr',
      applicationUrl: '',
    },
    head: 'The Show',
    has: ['Pilot', 'The.Show.S01E02.1080p', 'It begins.', 'eventType: Grab'],
    hasNot: ['tvdbId'],
  },
  'Sonarr: its health': {
    body: {
      level: 'warning',
      message: 'Indexers unavailable: idx',
      type: 'IndexerStatusCheck',
      wikiUrl: 'https://wiki.servarr.com/sonarr/system#indexers',
      eventType: 'Health',
      instanceName: 'Sonarr',
      applicationUrl: '',
    },
    head: 'Indexers unavailable: idx',
    has: ['level: warning', 'https://wiki.servarr.com/sonarr/system#indexers'],
    hasNot: [],
  },
  // https://github.com/containrrr/watchtower/blob/main/pkg/notifications/json.go
  Watchtower: {
    body: {
      entries: [{ data: {}, level: 'info', message: 'Found new image', time: '2026-01-05T03:12:00Z' }],
      host: 'nas',
      report: {
        failed: [],
        fresh: [
          {
            id: 'aa',
            currentImageId: 'bb',
            imageName: 'redis:7',
            latestImageId: 'bb',
            name: '/redis',
            state: 'Fresh',
          },
        ],
        scanned: [
          {
            id: 'cc',
            currentImageId: 'dd',
            imageName: 'shop:1',
            latestImageId: 'ee',
            name: '/shop',
            state: 'Updated',
          },
          {
            id: 'aa',
            currentImageId: 'bb',
            imageName: 'redis:7',
            latestImageId: 'bb',
            name: '/redis',
            state: 'Fresh',
          },
        ],
        skipped: [],
        stale: [],
        updated: [
          {
            id: 'cc',
            currentImageId: 'dd',
            imageName: 'shop:1',
            latestImageId: 'ee',
            name: '/shop',
            state: 'Updated',
          },
        ],
      },
      title: 'Watchtower updates on nas',
    },
    has: ['Found new image', '/shop', 'Updated'],
    hasNot: ['currentImageId'],
    notice: { title: 'Watchtower updates on nas' },
  },
  // https://github.com/caronc/apprise/blob/master/apprise/plugins/custom_json.py
  Apprise: {
    body: {
      version: '1.0',
      title: 'Backup',
      message: 'It failed',
      attachments: [{ filename: 'log.txt', base64: 'aGVsbG8gd29ybGQ=', mimetype: 'text/plain' }],
      type: 'failure',
    },
    head: 'It failed',
    has: [],
    hasNot: ['mimetype', 'version', 'base64'],
    notice: { title: 'Backup', priority: 'high', file: { name: 'log.txt' } },
  },
  // https://github.com/fluxcd/pkg/blob/main/apis/event/v1beta1/event.go
  Flux: {
    body: {
      involvedObject: {
        kind: 'Kustomization',
        namespace: 'flux-system',
        name: 'shop',
        uid: '1',
        apiVersion: 'kustomize.toolkit.fluxcd.io/v1',
        resourceVersion: '7',
      },
      severity: 'error',
      timestamp: '2026-01-05T03:12:00Z',
      message: 'kustomize build failed',
      reason: 'BuildFailed',
      metadata: { 'kustomize.toolkit.fluxcd.io/revision': 'main@sha1:abc' },
      reportingController: 'kustomize-controller',
      reportingInstance: 'kustomize-controller-x',
    },
    head: 'kustomize build failed',
    has: ['reason: BuildFailed', 'involvedObject.name: shop'],
    hasNot: [],
    notice: { priority: 'high' },
  },
  // https://docs.datadoghq.com/integrations/webhooks/
  Datadog: {
    body: {
      body: '%%%\nCPU is high on db1\n%%%',
      last_updated: '1767225600000',
      event_type: 'metric_alert_monitor',
      title: '[Triggered] CPU',
      date: '1767225600000',
      org: { id: '1', name: 'Acme' },
      id: '42',
      alert_id: '7',
      alert_metric: 'system.cpu',
      alert_priority: 'P2',
      alert_transition: 'Triggered',
      alert_status: 'CPU is 97',
      alert_title: 'CPU',
      alert_type: 'error',
      host_name: 'db1',
      priority: 'normal',
      tags: 'env:prod,host:db1',
      alert_scope: 'host:db1',
    },
    head: 'CPU is high on db1',
    has: ['host_name: db1', 'CPU is 97'],
    hasNot: ['%%%', '1767225600000'],
    notice: { title: '[Triggered] CPU' },
  },
  // https://docs.newrelic.com/docs/alerts/get-notified/custom-variables-incident-workflows/
  'New Relic': {
    body: {
      id: 'd1b1f3fd',
      issueUrl: 'https://radar-api.service.newrelic.com/accounts/1/issues/0ea2',
      title: "Memory Used % > 90 for at least 2 minutes on 'checkout'",
      priority: 'CRITICAL',
      impactedEntities: ['checkout'],
      totalIncidents: 1,
      state: 'ACTIVATED',
      trigger: 'INCIDENT_ADDED',
      isCorrelated: false,
      createdAt: 1617881246260,
      updatedAt: 1617881246260,
      sources: ['newrelic'],
      alertPolicyNames: ['Shop'],
      alertConditionNames: ['Memory high'],
      workflowName: 'Phone',
    },
    has: ['ACTIVATED', 'Memory high', 'issues/0ea2'],
    hasNot: ['1617881246260'],
    notice: { title: "Memory Used % > 90 for at least 2 minutes on 'checkout'", priority: 'max' },
  },
  // https://github.com/0x2142/frigate-notify
  'frigate-notify': {
    body: {
      time: '03:12:00 AM',
      id: '17.1-x',
      camera: 'Garden',
      label: 'person',
      sublabel: '',
      score: '91%',
      audio: '',
      current_zones: 'path',
      entered_zones: 'path',
      has_clip: 'true',
      has_snapshot: 'true',
      links: {
        camera: 'https://nvr.example/#garden',
        clip: 'https://nvr.example/api/events/17.1-x/clip.mp4',
      },
    },
    has: ['camera: Garden', 'label: person', 'https://nvr.example/api/events/17.1-x/clip.mp4'],
    hasNot: [],
  },
  // https://docs.frigate.video/integrations/mqtt
  'Frigate: an event of MQTT': {
    body: {
      type: 'new',
      before: {
        id: '17.1-x',
        camera: 'garden',
        frame_time: 1767225600.1,
        snapshot: null,
        label: 'person',
        sub_label: null,
        top_score: 0,
        false_positive: true,
        start_time: 1767225600.1,
        end_time: null,
        score: 0.7,
        box: [1, 2, 3, 4],
        area: 9,
        ratio: 1,
        region: [0, 0, 320, 320],
        stationary: false,
        motionless_count: 0,
        position_changes: 0,
        current_zones: [],
        entered_zones: [],
        has_clip: false,
        has_snapshot: false,
      },
      after: {
        id: '17.1-x',
        camera: 'garden',
        frame_time: 1767225601.1,
        snapshot: null,
        label: 'person',
        sub_label: null,
        top_score: 0.91,
        false_positive: false,
        start_time: 1767225600.1,
        end_time: null,
        score: 0.91,
        box: [1, 2, 3, 4],
        area: 9,
        ratio: 1,
        region: [0, 0, 320, 320],
        stationary: false,
        motionless_count: 0,
        position_changes: 1,
        current_zones: ['path'],
        entered_zones: ['path'],
        has_clip: true,
        has_snapshot: true,
      },
    },
    has: ['after.camera: garden', 'after.label: person', 'path'],
    hasNot: ['before.area'],
  },
  'UniFi Protect': {
    body: {
      alarm: {
        name: 'Somebody at the door',
        sources: [{ device: '68D79AE5ABE9', type: 'include' }],
        conditions: [{ condition: { type: 'is', source: 'person' } }],
        triggers: [
          {
            key: 'person',
            device: '68D79AE5ABE9',
            zones: { loiter: [], zone: [1], line: [] },
            eventId: '6825b65401986503e417318f',
            timestamp: 1747301972418,
          },
        ],
        eventPath: '/protect/events/event/6825',
        eventLocalLink: 'https://10.30.1.118/protect/events/event/6825',
      },
      timestamp: 1747301973486,
    },
    head: 'Somebody at the door',
    has: ['person', 'https://10.30.1.118/protect/events/event/6825'],
    hasNot: [],
  },
  // https://docs.overseerr.dev/using-overseerr/notifications/webhooks
  Overseerr: {
    body: {
      notification_type: 'MEDIA_PENDING',
      event: 'New Movie Request',
      subject: 'Dune (2021)',
      message: 'A desert.',
      image: 'https://image.tmdb.org/t/p/x.jpg',
      email: 'anna@example.com',
      username: 'anna',
      avatar: 'https://plex.tv/users/1/avatar',
      media: {
        media_type: 'movie',
        tmdbId: '438631',
        imdbId: '',
        tvdbId: '',
        status: 'PENDING',
        status4k: 'UNKNOWN',
      },
      request: {
        request_id: '5',
        requestedBy_email: 'anna@example.com',
        requestedBy_username: 'anna',
        requestedBy_avatar: 'https://plex.tv/users/1/avatar',
      },
      extra: [],
    },
    head: 'A desert.',
    has: ['New Movie Request', 'PENDING'],
    hasNot: ['avatar', 'tmdb.org'],
    notice: { title: 'Dune (2021)' },
  },
  // https://support.atlassian.com/statuspage/docs/enable-webhook-notifications/
  'Statuspage: a component': {
    body: {
      meta: {
        unsubscribe: 'https://s.example/?unsubscribe=j0',
        documentation: 'https://doers.statuspage.io/api',
      },
      page: { id: 'j2', status_indicator: 'critical', status_description: 'Major System Outage' },
      component_update: {
        created_at: '2026-01-05T21:32:28Z',
        new_status: 'operational',
        old_status: 'major_outage',
        id: 'k7',
        component_id: 'rb5',
      },
      component: { created_at: '2026-01-05T21:32:28Z', id: 'rb5', name: 'Checkout', status: 'operational' },
    },
    head: 'Checkout',
    has: ['operational', 'major_outage'],
    hasNot: ['2026-01-05T21'],
  },
  // https://github.com/healthchecks/healthchecks/blob/master/templates/integrations/slack_message.json
  'Healthchecks, as Slack': {
    body: {
      username: 'Healthchecks',
      icon_url: 'https://hc.example/logo.png',
      attachments: [
        {
          color: 'danger',
          fallback: 'The check "Nightly backup" is DOWN.',
          mrkdwn_in: ['fields'],
          title: '“Nightly backup” is DOWN.',
          title_link: 'https://hc.example/checks/1',
          fields: [
            { title: 'Project', value: 'Home', short: true },
            { title: 'Tags', value: '`prod` ', short: true },
            { title: 'Period', value: '1 day', short: true },
            { title: 'Last Ping', value: 'Success, 2 days ago', short: true },
            { title: 'Total Pings', value: '31', short: true },
          ],
        },
      ],
    },
    head: '“Nightly backup” is DOWN.',
    has: ['https://hc.example/checks/1', 'Project: Home', 'Last Ping: Success, 2 days ago'],
    hasNot: ['danger', '`', 'mrkdwn'],
  },
  // https://github.com/go-gitea/gitea/blob/main/services/webhook/slack.go
  'Gitea, as Slack': {
    body: {
      channel: '#ops',
      text: '[<https://git.example/g/p|g/p>:<https://git.example/g/p/src/branch/main|main>] <https://git.example/c|2 new commits> pushed by anna',
      username: 'gitea',
      icon_url: 'https://git.example/i.png',
      unfurl_links: 0,
      link_names: 0,
      attachments: [
        {
          fallback: '',
          color: '',
          title: 'https://git.example/g/p',
          title_link: 'https://git.example/g/p',
          text: '<https://git.example/c/1|da15608>: Fix the door - Anna\n<https://git.example/c/2|ab15608>: Paint &lt;it&gt; - Anna',
        },
      ],
    },
    head: '[g/p',
    has: ['2 new commits (https://git.example/c)', 'Paint <it> - Anna'],
    hasNot: ['&lt;', '|'],
  },
  // https://developer.work.weixin.qq.com/document/path/91770
  'WeCom: a template card': {
    body: {
      msgtype: 'template_card',
      template_card: {
        card_type: 'text_notice',
        source: { desc: '监控', icon_url: 'https://i.example/a.png', desc_color: 1 },
        main_title: { title: '磁盘告警', desc: 'db1 已满' },
        emphasis_content: { title: '95%', desc: '使用率' },
        sub_title_text: '请尽快处理',
        horizontal_content_list: [{ keyname: '主机', value: 'db1' }],
        jump_list: [{ type: 1, title: '查看', url: 'https://w.example/1' }],
        card_action: { type: 1, url: 'https://w.example/1' },
      },
    },
    head: '监控',
    has: ['磁盘告警', 'db1 已满', '95%', '请尽快处理', '主机: db1', 'https://w.example/1'],
    hasNot: ['text_notice'],
  },
  'WeCom: news': {
    body: {
      msgtype: 'news',
      news: {
        articles: [
          {
            title: '部署失败',
            description: '点击查看',
            url: 'https://w.example/2',
            picurl: 'https://i.example/b.png',
          },
        ],
      },
    },
    head: '部署失败',
    has: ['点击查看', 'https://w.example/2'],
    hasNot: ['articles'],
  },
  // https://open.dingtalk.com/document/orgapp/custom-bot-send-message-type
  'DingTalk: an action card': {
    body: {
      msgtype: 'actionCard',
      actionCard: {
        title: '线上任务失败',
        text: '#### 线上任务失败 \n\n日志见下',
        hideAvatar: '0',
        btnOrientation: '0',
        btns: [{ title: '查看详情', actionURL: 'https://d.example/1' }],
      },
    },
    head: '线上任务失败',
    has: ['日志见下', '查看详情', 'https://d.example/1'],
    hasNot: ['####', 'hideAvatar'],
  },
  'DingTalk: a link': {
    body: {
      msgtype: 'link',
      link: {
        title: '任务失败',
        text: '失败任务 a/b',
        picUrl: 'https://i.example/c.png',
        messageUrl: 'https://d.example/2',
      },
      at: { atMobiles: [], isAtAll: true },
    },
    head: '任务失败',
    has: ['失败任务 a/b', 'https://d.example/2'],
    hasNot: ['isAtAll'],
  },
  // https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
  'Feishu: a card': {
    body: {
      msg_type: 'interactive',
      card: {
        config: { wide_screen_mode: true, enable_forward: true },
        header: { template: 'green', title: { content: '升级成功', tag: 'plain_text' } },
        elements: [
          { tag: 'markdown', content: '**版本**：2.0' },
          { tag: 'div', fields: [{ is_short: true, text: { tag: 'lark_md', content: '**主机**\ndb1' } }] },
          { tag: 'hr' },
          { tag: 'img', img_key: 'img_x', alt: { tag: 'plain_text', content: '截图' } },
          { tag: 'note', elements: [{ tag: 'plain_text', content: '自动发送' }] },
        ],
      },
    },
    head: '升级成功',
    has: ['版本：2.0', '主机\ndb1', '自动发送'],
    hasNot: ['**', 'img_x', 'wide_screen'],
  },
  // https://github.com/louislam/uptime-kuma/blob/master/server/notification-providers/webhook.js
  'Uptime Kuma: as a form': {
    ...(await form({ data: JSON.stringify(kuma) })),
    head: '[🔴 Down] connect ECONNREFUSED',
    has: [],
    hasNot: ['{'],
    notice: { title: 'Shop', click: 'https://shop.example', priority: 'high' },
  },
  'Uptime Kuma: a host without a page': {
    body: {
      ...kuma,
      monitor: { ...kuma.monitor, url: 'https://', hostname: 'db1', port: 5432, type: 'port' },
    },
    head: '[🔴 Down] connect ECONNREFUSED\ndb1:5432',
    has: [],
    hasNot: ['https'],
    notice: { title: 'Shop' },
  },
  'Uptime Kuma: the test': {
    body: { heartbeat: null, monitor: null, msg: 'WeChat Testing' },
    head: 'WeChat Testing',
    has: [],
    hasNot: ['\n'],
    notice: { priority: 'default' },
  },
  'Uptime Kuma: as a query': {
    body: '',
    query: {
      msg: kuma.msg,
      heartbeat: JSON.stringify(kuma.heartbeat),
      monitor: JSON.stringify(kuma.monitor),
    },
    head: '[Shop] [🔴 Down] connect ECONNREFUSED',
    has: [],
    hasNot: ['{'],
  },
  // https://support.plex.tv/articles/115002267687-webhooks/
  Plex: {
    ...(await form({ payload: JSON.stringify(plex) }, 'thumb.jpg')),
    head: 'Pilot',
    has: ['The Show', 'It begins.', 'library.new'],
    hasNot: ['plex://', '1700000000'],
    notice: { file: { name: 'thumb.jpg' } },
  },
  'Slack: as a form': {
    body: `payload=${encodeURIComponent(JSON.stringify({ text: 'Deploy *failed*', attachments: [{ title: 'Log', title_link: 'https://ci.example/1', text: 'exit 2' }] }))}`,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    head: 'Deploy failed',
    has: ['Log', 'https://ci.example/1', 'exit 2'],
    hasNot: ['*', '{'],
  },
  // https://www.zabbix.com/documentation/current/en/manual/config/notifications/media/webhook
  Zabbix: {
    body: {
      AlertURL: 'https://zabbix.example/tr_events.php?triggerid=1&eventid=2',
      Environment: 'prod',
      EventDate: '2026.01.05',
      EventID: '2',
      EventName: 'High CPU load on db1',
      EventNSeverity: '4',
      EventOpData: 'Load: 9',
      EventSeverity: 'High',
      EventStatus: 'PROBLEM',
      HostName: 'db1',
      TriggerDescription: 'The load is too high',
      EventTags: 'scope:performance',
    },
    head: 'High CPU load on db1',
    has: [
      'The load is too high',
      'EventStatus: PROBLEM',
      'https://zabbix.example/tr_events.php?triggerid=1&eventid=2',
    ],
    hasNot: [],
  },
  // https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/
  Grafana: {
    body: {
      receiver: 'phone',
      status: 'firing',
      orgId: 1,
      alerts: [
        {
          status: 'firing',
          labels: { alertname: 'High memory', grafana_folder: 'Home', team: 'blue', zone: 'us-1' },
          annotations: {
            description: 'The system has high memory usage',
            runbook_url: 'https://run.example/1',
            summary: 'Zone us-1',
          },
          startsAt: '2026-01-05T09:51:03.157076+02:00',
          endsAt: '0001-01-01T00:00:00Z',
          generatorURL: 'https://g.example/alerting/1/edit',
          fingerprint: 'c6eadffa33fcdf37',
          silenceURL: 'https://g.example/alerting/silence/new?x',
          dashboardURL: '',
          panelURL: '',
          values: { B: 44.23943737541908, C: 1 },
          valueString: "[ var='B' labels={} value=44.2 ]",
        },
      ],
      groupLabels: {},
      commonLabels: { team: 'blue' },
      commonAnnotations: {},
      externalURL: 'https://g.example/',
      version: '1',
      groupKey: '{}:{}',
      truncatedAlerts: 0,
      title: '[FIRING:1] High memory',
      state: 'alerting',
      message: '**Firing** …',
    },
    head: 'Zone us-1',
    has: ['The system has high memory usage', 'zone: us-1', 'B=44.24'],
    hasNot: ['silence', '{'],
    notice: { title: 'High memory', click: 'https://run.example/1' },
  },
}

testPrograms(rows)

test('a monitor of Uptime Kuma that is up again ends what said that it is down', async () => {
  const up = { ...kuma.heartbeat, status: 1, msg: '200 - OK' }
  const [[down], [over]] = [
    await read({ body: kuma }),
    await read({ body: { ...kuma, heartbeat: up, msg: '[Shop] [✅ Up] 200 - OK' } }),
  ]
  expect(down!.resolved).toBe(false)
  expect(over).toMatchObject({ title: 'Shop', text: '[✅ Up] 200 - OK', priority: 'default', resolved: true })
  expect(over!.fingerprint).toBe(down!.fingerprint!)
})

test('a text that is JSON is read as such, except what ntfy is given; what is none, or too deep, stays a text', async () => {
  const inner = JSON.stringify({ title: 'Inner', state: 'down' })
  const textOf = async (body: unknown) => {
    const [first] = await read({ body })
    return [first!.title, first!.text].filter(Boolean).join('\n')
  }
  expect(await textOf({ note: inner })).toBe('Inner\nnote.state: down')
  expect(await textOf({ list: [{ deep: inner }] })).toContain('list[0].deep.state: down')
  expect(await textOf({ topic: 'home', message: inner })).toBe(inner)
  for (const text of ['{ not json }', '{}', '[1]'])
    expect(await textOf({ message: text })).toContain(text.trim())
  const nested = { a: { b: { c: { d: { e: { f: { g: { h: inner } } } } } } } }
  expect(await textOf(nested)).toContain(inner)
})
